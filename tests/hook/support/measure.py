"""Measurements for benches and some tests: drains, hand-overs, overheads, with a scripted or the real daemon.

Figures are of simgpu at speed 1.
"""

import itertools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedulerd.core.model import Rules
from testbed.gpu_record import Interval, Record, busy_share
from tests.fakes.wire.allocations import known_containers
from tests.fakes.wire.client import running_daemon
from tests.fakes.wire.daemon import Connection, Peer
from tests.hook.support.machine import Machine, compiled, wait_until
from tests.simgpu.calibration import Workload, constant, kernels_of, rounds_of


@dataclass(frozen=True, slots=True)
class Drain:
    """Yields of a busy process: milliseconds from `yield` to `done`, and the GPU's busy share of the turns."""

    milliseconds: list[float]
    busy: float

    def p(self, percent: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextmanager
def scripted(devices: str = "1xT4-16GB") -> Iterator[tuple[Machine, Peer]]:
    """Run a machine with a scripted daemon for the length of a block."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), devices=devices)
        peer = Peer(machine.sockets, machine.uuids())
        try:
            yield machine, peer
        finally:
            peer.stop()


def measure_drain(names: list[str], *, yields: int, turn: float) -> Drain:
    """Measure drains in turns of so many seconds; the first turn is for learning and is not counted."""
    with scripted() as (machine, peer):
        process = machine.start(compiled("drain"), "600", *names)
        connection = peer.accept()
        peer.welcome(connection)
        connection.hear("want")
        taken, busy = [], []
        for number in range(yields + 1):
            began, took = _turn(peer, connection, turn if number else max(turn, 1.0))
            if number:
                taken.append(took * 1000)
                busy.append(busy_share(Record(machine.gpus).intervals(0), began + 0.002, began + turn))
        process.kill()
        process.communicate()
        return Drain(taken, statistics.mean(busy))


def _turn(peer: Peer, connection: Connection, seconds: float) -> tuple[float, float]:
    began = time.monotonic()
    turn = peer.grant(connection)
    time.sleep(seconds)
    asked = time.monotonic()
    connection.say("yield", turn=turn, grace_ms=5000)
    connection.hear("done", turn=turn, passing=("using", "want"))
    took = time.monotonic() - asked
    peer.close_gate()
    connection.hear("want", passing=("using",))
    return began, took


def measure_overhead(
    threads: int, *, streams: int = 1, launches: int = 100_000, rounds: int = 15, pairs: int = 4
) -> tuple[float, float]:
    """Return ns of processor time for a launch: bare, and hooked with the turn held; the least of alternating runs.

    Each thread has so many streams, and uses them in turn.

    A round is shorter than a time slice: with more threads than processors each round of a longer one is interrupted.
    """
    with real_daemon() as machine:
        command = [str(compiled("bench_launch")), str(threads), str(launches), str(rounds), str(streams)]
        runs = [[float(machine.run(*command, hooked=way).well()) for way in (False, True)] for _ in range(pairs)]
    return min(bare for bare, _ in runs), min(hooked for _, hooked in runs)


def measure_allocation(live: int, *, pairs: int = 21) -> tuple[float, float]:
    """Return ns of processor time for an allocation and its return, with so many alive: bare, and the hook's addition.

    The stand-in's own 2 us for each call are mmap and munmap, which vary by more than the hook costs.  So bare and
    hooked runs take turns, and the median of their differences counts.
    """
    with real_daemon() as machine:
        command = [str(compiled("bench_alloc")), str(live), "4000", "5"]
        runs = [[float(machine.run(*command, hooked=way).well()) for way in (False, True)] for _ in range(pairs)]
    return statistics.median(bare for bare, _ in runs), statistics.median(hooked - bare for bare, hooked in runs)


@contextmanager
def real_daemon(*flags: str, devices: str = "1xT4-16GB") -> Iterator[Machine]:
    """Run a machine with the real daemon for the length of a block."""
    with tempfile.TemporaryDirectory() as folder, running_daemon(Path(folder), *flags):
        yield Machine(Path(folder), devices=devices)


def measure_handovers(seconds: float) -> list[float]:
    """Return microseconds from a process's last launch to the next one's first: empty kernels, the real daemon."""
    with real_daemon("--quantum=2ms", "--side-by-side=never", "--policy=rr") as machine:
        programs = [machine.start(compiled("handover")) for _ in range(2)]
        time.sleep(seconds)
        bursts = []
        for label, program in enumerate(programs):
            out, said = program.communicate(timeout=30)
            assert program.returncode == 0, said
            bursts += [(*map(float, line.split()), label) for line in out.splitlines()]
    bursts.sort()
    pairs = itertools.pairwise(bursts)
    return sorted(
        (after[0] - before[1]) * 1e6 for before, after in pairs if before[2] != after[2] and after[0] > before[1]
    )


def measure_idle_but_held() -> list[float]:
    """Return milliseconds from a neighbour's request to its turn, while the holder is idle, with the real daemon."""
    waits = []
    with real_daemon("--side-by-side=never") as machine:
        holder = machine.start(compiled("pulse"), "300", "1000", "step_1us")
        assert holder.stdout
        holder.stdout.readline()
        neighbour = machine.start(compiled("pulse"), "310", "12", "step_1us")
        waits = [float(line) for line in neighbour.communicate(timeout=60)[0].splitlines()]
        holder.kill()
        holder.communicate()
    return sorted(waits[1:])


def measure_neighbour(seconds: float) -> float:
    """Return the seconds that a saturating neighbour loses to a client that launches once in 4 s."""
    with real_daemon("--side-by-side=never") as machine:
        rare = machine.start(compiled("pulse"), "4000", "1000", "step_1ms", SIMGPU_LABEL="rare")
        busy = machine.start(compiled("drain"), "600", "step_1ms", SIMGPU_LABEL="busy")
        time.sleep(seconds + 1)
        intervals = Record(machine.gpus).intervals(0)
        for program in (rare, busy):
            program.kill()
            program.communicate()
    triples = zip(intervals[2:], intervals[3:], intervals[4:], strict=False)
    return sum(after.start - before.end for before, one, after in triples if one.owner.label == "rare")


@dataclass(frozen=True, slots=True)
class Sharing:
    """Shares of the GPUs' time: the container with several GPUs, the singles, and all together."""

    gang: float
    singles: float
    busy: float
    halved: float
    """Seconds in which the container executed on one GPU while a single did on the other."""


@contextmanager
def _shared_by_two_singles(mode: str, quantum: str) -> Iterator[tuple[Machine, Path]]:
    """Give each of two GPUs a container that never stops, and both to a third; return the third's sockets folder."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), devices="2xT4-16GB")
        uuids = machine.uuids()
        with known_containers(machine.folder, f"--quantum={quantum}", "--side-by-side=never") as containers:
            both = containers.add("both", *uuids, weight=100, mode=mode)
            singles = []
            for index, uuid in enumerate(uuids):
                words = {"SIMGPU_LABEL": f"single{index}", "CUDA_VISIBLE_DEVICES": uuid}
                home = str(containers.add(f"single{index}", uuid, weight=100))
                singles.append(
                    machine.start(compiled("drain"), "600", "step_2ms", hooked=True, NVSHARE_SOCKETS=home, **words)
                )
            try:
                yield machine, both
            finally:
                for program in singles:
                    program.kill()
                    program.communicate()


def measure_parallel(seconds: float, *, quantum: str = "500ms") -> Sharing:
    """Run two processes in one gang container on two GPUs, each GPU shared with another container."""
    with _shared_by_two_singles("gang", quantum) as (machine, both):
        words = {"SIMGPU_LABEL": "both", "NVSHARE_SOCKETS": str(both)}
        job = [machine.start(compiled("parallel"), str(index), "600", hooked=True, **words) for index in range(2)]
        return _watch(machine, job, seconds)


def measure_per_device(seconds: float, *, quantum: str = "500ms", mode: str = "per-device") -> Sharing:
    """Run one process with two threads on two shared GPUs; `busy` is that of the less busy GPU."""
    with _shared_by_two_singles(mode, quantum) as (machine, both):
        words = {"SIMGPU_LABEL": "both", "NVSHARE_SOCKETS": str(both)}
        return _watch(machine, [machine.start(compiled("two_gpus"), "600", "step_2ms", hooked=True, **words)], seconds)


def _watch(machine: Machine, programs: "list[subprocess.Popen[str]]", seconds: float) -> Sharing:
    time.sleep(1.5)
    began = time.monotonic()
    time.sleep(seconds)
    record, ended = Record(machine.gpus), time.monotonic()
    parts = [_parted(record.intervals(device)) for device in range(2)]
    rows = [tuple(busy_share(part, began, ended - 0.05) for part in parted) for parted in parts]
    halved = sum(_seconds_at_once(parts[device][0], parts[1 - device][1]) for device in range(2))
    for program in programs:
        program.kill()
        program.communicate()
    return Sharing(
        statistics.mean(row[0] for row in rows), statistics.mean(row[1] for row in rows), min(map(sum, rows)), halved
    )


def _parted(intervals: list[Interval]) -> tuple[list[Interval], list[Interval]]:
    """Return what the container with both GPUs executed, and what the other containers executed."""
    return (
        [one for one in intervals if one.owner.label == "both"],
        [one for one in intervals if one.owner.label != "both"],
    )


def _seconds_at_once(some: list[Interval], others: list[Interval]) -> float:
    """Return how long intervals of both lists overlapped; both lists are in order of time."""
    total, at, its = 0.0, 0, 0
    while at < len(some) and its < len(others):
        one, other = some[at], others[its]
        total += max(0.0, min(one.end, other.end) - max(one.start, other.start))
        at, its = (at + 1, its) if one.end <= other.end else (at, its + 1)
    return total


@contextmanager
def nvml_environment(machine: Machine) -> Iterator[None]:
    """Return the environment in which the daemon's observer asks the software GPU's NVML."""
    before = dict(os.environ)
    os.environ.update({key: value for key, value in machine.environment(hooked=False).items() if key not in before})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def calibrated(*flags: str, scale: int) -> Iterator[Machine]:
    """Run a card with simgpu's calibration and the daemon, with every time divided by `scale`."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), devices="1xP100-16GB", settings=_physics(scale))
        with nvml_environment(machine), running_daemon(machine.folder, *_settings(scale), *flags):
            wait_until((machine.folder / "control.sock").exists, what="the daemon's control socket")
            time.sleep(1)  # its observer tells it how large the card is
            yield machine


def _physics(scale: int) -> dict[str, str]:
    return {
        "SIMGPU_SLICE": f"{constant('slice') * 1e3:g}ms",
        "SIMGPU_SWITCH": f"{constant('switch') * 1e6:g}us",
        "SIMGPU_OVERHEAD": f"{constant('overhead') * 1e9:.0f}",
        "SIMGPU_PASS": f"{constant('pass') * 1e6 / scale:.0f}us",
        "SIMGPU_PAGE_RATE": f"{constant('page rate') * 1e9 * scale:.0f}",
    }


def _settings(scale: int) -> list[str]:
    """Return the daemon's settings for paging at this scale."""
    rate, longest = constant("page rate") * 1e9 * scale, Rules().longest_quantum / scale
    watching = ["--observer=spawn", "--metrics-port=0"]
    return [f"--paging-rate={rate:.0f}", f"--longest-turn={longest * 1000:.0f}ms", *watching]


def measure_jobs(machine: Machine, workload: Workload, *, jobs: int, hooked: bool, scale: int) -> float:
    """Return seconds from the start of so many calibrated jobs at once to the end of the last."""
    host = constant("phase") * (1 - workload.device_share) / scale
    kernel = f"train_{constant('kernel') * 1000 / scale:.0f}ms"
    words = [
        f"{workload.gigabytes * 1e9:.0f}",
        f"{host:g}",
        str(kernels_of(workload)),
        str(rounds_of(workload)),
        kernel,
    ]
    program, began = compiled("job"), time.monotonic()
    for job in [machine.start(program, *words, hooked=hooked) for _ in range(jobs)]:
        _, said = job.communicate(timeout=240)
        assert job.returncode == 0, said
    return time.monotonic() - began

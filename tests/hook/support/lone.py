"""Measurements of a program that has a GPU to itself, and of what its first neighbour waits for.

Each figure is a ratio or a wait of one run; the software GPU runs at speed 1 and executes four streams at once.
"""

import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.gpu_record import Record
from tests.fakes.wire.client import running_daemon
from tests.hook.support.machine import Machine, compiled, wait_until
from tests.hook.support.measure import nvml_environment, real_daemon

FOUR_STREAMS = {"SIMGPU_OVERLAP": "4"}


@contextmanager
def lone_machine(*flags: str) -> Iterator[Machine]:
    """Run a machine with the real daemon, whose GPU executes four streams at once."""
    with real_daemon(*flags) as machine:
        machine.settings |= FOUR_STREAMS
        yield machine


@contextmanager
def roomy_machine() -> Iterator[Machine]:
    """Run a machine whose daemon knows the card's size, so that small containers run side by side."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), settings=dict(FOUR_STREAMS))
        with nvml_environment(machine), running_daemon(machine.folder, "--observer=spawn", "--metrics-port=0"):
            wait_until((machine.folder / "control.sock").exists, what="the daemon's control socket")
            time.sleep(1)  # its observer tells it how large the card is
            yield machine


@dataclass(frozen=True, slots=True)
class Lone:
    """Seconds of one family of programs: bare and hooked, the least of several runs."""

    bare: float
    hooked: float

    @property
    def ratio(self) -> float:
        return self.hooked / self.bare


def measure_family(machine: Machine, family: str, *, rounds: int = 3) -> Lone:
    """Measure a family bare and hooked, in turn."""
    program = compiled("lone")
    runs = [[float(machine.run(program, family, hooked=way).well()) for way in (False, True)] for _ in range(rounds)]
    return Lone(min(bare for bare, _ in runs), min(hooked for _, hooked in runs))


@dataclass(frozen=True, slots=True)
class InFlight:
    """Seconds in which a program had work in flight: as the hook says, and as the GPU recorded."""

    said: float
    recorded: float

    @property
    def off_percent(self) -> float:
        return abs(self.said / self.recorded - 1) * 100


def measure_in_flight(program: str, *words: str) -> InFlight:
    """Run a program alone, and compare the in-flight time in its summary with the software GPU's record."""
    with lone_machine() as machine:
        ended = machine.run(compiled(program), *words, NVSHARE_LOG="summary")
        ended.well()
        said = re.search(r"gpu_seconds=([\d.]+)", ended.said)
        assert said, ended.said
        record = Record(machine.gpus)
        assert not record.lost(0), "the record has lost entries: make the program shorter"
        return InFlight(float(said[1]), sum(one.seconds for one in record.intervals(0)))


def measure_visits(family: list[str], *, visits: int, after: float, pause_ms: int) -> list[float]:
    """Return how many milliseconds each launch of a visitor waits.  The holder runs alone for `after` seconds first."""
    with lone_machine("--side-by-side=never") as machine:
        holder = machine.start(compiled("streams"), "600", *family)
        assert holder.stdout
        holder.stdout.readline()
        visitor = machine.start(compiled("visitor"), str(after), str(pause_ms), str(visits), "step_1ms")
        waits = [float(line) for line in visitor.communicate(timeout=120)[0].splitlines()]
        holder.kill()
        holder.communicate()
    assert len(waits) == visits
    return waits


def measure_equals(*, rounds: int = 3) -> float:
    """Return the slower over the faster of two equal programs that run side by side; the median of several runs."""
    ratios = []
    with roomy_machine() as machine:
        for _ in range(rounds):
            programs = [machine.start(compiled("equal"), "step_20us", "20000") for _ in range(2)]
            for program in programs:
                assert program.stdout
                program.stdout.readline()
            for program in programs:
                assert program.stdin
                program.stdin.write("go\n")
                program.stdin.flush()
            times = [float(program.communicate(timeout=60)[0]) for program in programs]
            ratios.append(max(times) / min(times))
    return statistics.median(ratios)

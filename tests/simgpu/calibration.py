"""The software GPU against the only full table there is: nvshare's thesis, table 12.2 (one P100 of 16 GB, two jobs).

`python -m tests.simgpu.calibration` runs four workloads serially, together without a lock, and together with nvshare's
lock at 30 s, and prints each ratio to serial beside the published one.  One set of constants for all cells, each with
its reason.  Ratios only: absolute seconds of somebody else's network on somebody else's card are not ours to claim.
"""

from __future__ import annotations

import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.fakes.gpu_machine import Machine

WITHIN = 0.25


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that all cells share, and why it is what it is."""

    name: str
    value: float
    unit: str
    reason: str


CONSTANTS = {
    one.name: one
    for one in (
        Constant("phase", 20, "s", "host and device part of a job together; the lock looks worse with shorter ones"),
        Constant("pass", 0.35, "s", "computing that touches a job's memory once; published: 1,900 passes in 670 s"),
        Constant("page rate", 5.7, "GB/s", "15.3 GB in the 2.5-3.0 s that a switch costs in the table"),
        Constant("slice", 0.002, "s", "the default time slice of NVIDIA's scheduler"),
        Constant("switch", 50e-6, "s", "changing the context, without memory"),
        Constant("kernel", 1.0, "s", "what a job launches before it waits: how late it sees its turn end"),
        Constant("overhead", 0.3, "GB", "memory a context takes by itself"),
        Constant("quantum", 30, "s", "nvshare's default"),
        Constant("early release", 5, "s", "nvshare's: its holder has launched nothing for so long"),
        Constant("job", 1 / 3, "of its length", "ratios stay, and the run takes a minute or two"),
        Constant("speed", 100, "x", "0.1 ms of a scheduler's delay is 10 ms here, against phases of seconds"),
    )
}
"""How the pass follows: thrashing adds 10,200 s in big_50 and in big_90 alike; at 5.7 GB/s that is 58 TB, or 1,900
times 15.3 GB for each of two jobs, which compute for some 670 s each."""


def constant(name: str) -> float:
    return CONSTANTS[name].value


class Mode(Enum):
    """How the two jobs run."""

    NO_LOCK = "no lock"
    LOCK = "lock 30 s"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A job of the thesis: its size, its share of the device, and the published seconds."""

    name: str
    gigabytes: float
    device_share: float
    solo: float
    published_serial: float
    published: dict[Mode, float]


WORKLOADS = (
    Workload("small_50", 7.2, 0.5, 1332, 2636, {Mode.NO_LOCK: 1772, Mode.LOCK: 2017}),
    Workload("small_90", 7.2, 0.9, 711, 1384, {Mode.NO_LOCK: 1128, Mode.LOCK: 1366}),
    Workload("big_50", 15.3, 0.5, 1385, 2766, {Mode.NO_LOCK: 11757, Mode.LOCK: 2170}),
    Workload("big_90", 15.3, 0.9, 724, 1438, {Mode.NO_LOCK: 11434, Mode.LOCK: 1521}),
)


class NvshareLock:
    """nvshare's scheduler, played: first come first served, a quantum, and the early release.

    The quantum runs whether anybody waits or not, as nvshare's does; a holder asked to stop finishes its kernel first.
    """

    def __init__(self, speed: float) -> None:
        self._changed = threading.Condition()
        self._speed = speed
        self._queue: list[int] = []
        self._granted = self._last_use = 0.0

    def _now(self) -> float:
        return time.monotonic() * self._speed

    def is_asked_to_stop(self, job: int) -> bool:
        """Tell whether the quantum is over and another client waits."""
        with self._changed:
            over = self._queue[:1] == [job] and self._now() - self._granted > constant("quantum")
            if over and len(self._queue) == 1:
                self._granted = self._now()
            return over and len(self._queue) > 1

    def pass_on(self, job: int) -> None:
        """Go to the end of the queue, after the device was drained."""
        with self._changed:
            self._queue.remove(job)
            self._queue.append(job)
            self._grant()

    def acquire(self, job: int) -> None:
        """Wait for the lock before a kernel, unless it is held already."""
        with self._changed:
            if job not in self._queue:
                self._queue.append(job)
                if self._queue[0] == job:
                    self._grant()
            while self._queue[0] != job:
                self._changed.wait(0.002)
                self._release_idle()
            self._last_use = float("inf")

    def used(self) -> None:
        """Note that the device is drained and the host computes now."""
        with self._changed:
            self._last_use = self._now()

    def leave(self, job: int) -> None:
        with self._changed:
            self._queue.remove(job)
            self._grant()

    def _release_idle(self) -> None:
        if self._now() - self._last_use > constant("early release"):
            self._queue.pop(0)
            self._grant()

    def _grant(self) -> None:
        self._granted = self._last_use = self._now()
        self._changed.notify_all()


class _NoLock(NvshareLock):
    """Everybody may, always."""

    def is_asked_to_stop(self, job: int) -> bool:  # noqa: ARG002  the other lock's interface
        return False

    def acquire(self, job: int) -> None: ...

    def used(self) -> None: ...

    def leave(self, job: int) -> None: ...


def kernels_of(workload: Workload) -> int:
    """Return the kernels of one phase."""
    return round(constant("phase") * workload.device_share / constant("kernel"))


def rounds_of(workload: Workload) -> int:
    """Return the phases of one job."""
    return math.ceil(workload.solo * constant("job") / constant("phase"))


def run_jobs(workload: Workload, jobs: int, mode: Mode) -> float:
    """Run so many jobs at once in this client process; return the simulated seconds until the last is done."""
    speed = constant("speed")
    lock = (NvshareLock if mode is Mode.LOCK else _NoLock)(speed)
    from tests.simgpu import clients  # the bindings load here, in the client, and outside of the measured time

    clients.take(clients.cu.cuInit(0))
    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        for job in [pool.submit(_run_job, workload, number, lock) for number in range(jobs)]:
            job.result()
    return (time.monotonic() - began) * speed


def _run_job(workload: Workload, number: int, lock: NvshareLock) -> None:
    from tests.simgpu import clients

    driver, take = clients.cu, clients.take
    take(driver.cuCtxCreate(None, 0, 0))
    take(driver.cuMemAllocManaged(int(workload.gigabytes * 1e9), 1))
    kernel = clients.kernel(f"step_{constant('kernel'):g}s")
    ended = [take(driver.cuEventCreate(0)) for _ in range(2)]
    for _ in range(rounds_of(workload)):
        time.sleep(constant("phase") * (1 - workload.device_share) / constant("speed"))
        for step in range(kernels_of(workload)):
            if lock.is_asked_to_stop(number):
                take(driver.cuCtxSynchronize())
                lock.pass_on(number)
            lock.acquire(number)
            # one kernel runs, one waits behind it: the device is never idle for the host's sake
            take(driver.cuEventSynchronize(ended[step % 2]))
            take(clients.launch(kernel))
            take(driver.cuEventRecord(ended[step % 2], 0))
        take(driver.cuCtxSynchronize())
        lock.used()
    _leave(lock, number)


def _leave(lock: NvshareLock, number: int) -> None:
    try:
        lock.leave(number)
    except ValueError:
        return  # released early already


@dataclass(frozen=True, slots=True)
class Cell:
    """One ratio to serial: ours and the published one."""

    workload: str
    mode: Mode
    ours: float
    published: float
    stretched: float
    """Its job alone, against its plan: what this machine's delays added to the yardstick."""

    @property
    def off(self) -> float:
        return self.ours / self.published - 1

    @property
    def holds(self) -> bool:
        return abs(self.off) <= WITHIN


def _measure(workload: Workload, jobs: int, mode: Mode) -> float:
    settings = {
        "slice": f"{constant('slice') * 1e3:g}ms",
        "switch": f"{constant('switch') * 1e6:g}us",
        "overhead": f"{constant('overhead') * 1e9:.0f}",
        "page_rate": f"{constant('page rate') * 1e9:.0f}",
        "pass": f"{constant('pass') * 1e3:g}ms",
        "speed": f"{constant('speed'):g}",
        "record_entries": "16",
    }
    with tempfile.TemporaryDirectory() as folder, Machine(Path(folder), "1xP100-16GB", settings).client() as client:
        client.start(run_jobs, workload, jobs, mode)
        return float(client.result(timeout=600))


def planned_seconds(workload: Workload) -> float:
    """Return how long a job takes alone when no kernel is ever late."""
    on_device = kernels_of(workload) * constant("kernel")
    return rounds_of(workload) * (on_device + constant("phase") * (1 - workload.device_share))


def cells() -> Iterator[Cell]:
    """Measure all cells; each workload alone gives its serial time."""
    kinds = ((2, Mode.NO_LOCK), (2, Mode.LOCK), (1, Mode.NO_LOCK))
    runs = [(workload, jobs, mode) for workload in WORKLOADS for jobs, mode in kinds]
    runs.sort(key=lambda run: run[0].published[run[2]] * run[1], reverse=True)
    with ThreadPoolExecutor(3) as pool:
        seconds = dict(zip(runs, pool.map(lambda run: _measure(*run), runs), strict=True))
    for workload in WORKLOADS:
        serial = 2 * seconds[workload, 1, Mode.NO_LOCK]
        for mode in Mode:
            published = workload.published[mode] / workload.published_serial
            stretched = serial / 2 / planned_seconds(workload)
            yield Cell(workload.name, mode, seconds[workload, 2, mode] / serial, published, stretched)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    say("One set of constants for all cells:")
    for one in CONSTANTS.values():
        say(f"  {one.name:<14} {one.value:>9.4g} {one.unit:<24} {one.reason}")
    say("\nTotal time of two jobs as a multiple of running them one after the other (serial = 1):")
    heads = f"{'ours':>7} {'thesis':>7} {'off':>6}"
    say(f"  {'workload':<10} {'mode':<10} {heads}  {'':<11}  a job alone, of its plan")
    failed = 0
    for cell in cells():
        failed += not cell.holds
        verdict = "within 25 %" if cell.holds else "TOO FAR"
        ratios = f"{cell.ours:>7.3f} {cell.published:>7.3f} {cell.off:>+6.0%}"
        say(f"  {cell.workload:<10} {cell.mode.value:<10} {ratios}  {verdict:<11}  {cell.stretched:.3f}")
    say(f"\nA simulation at {constant('speed'):g} times real speed: its shape is right, and it says nothing more.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

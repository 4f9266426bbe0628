"""What the software GPU itself costs: a launch of length 0, and how exactly it keeps time.

A launch's cost must vanish beside what the hook adds (3.7 ns), or the hook could not be measured on it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testbed.gpu_record import busy_share
from tests.fakes.gpu_machine import Machine
from tests.runners.bench import Row
from tests.simgpu.launch_costs import launch_costs

LAUNCHES = "2000000"


def bench() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name))
        runs = [launch_costs(Path(name), machine.environment(), LAUNCHES) for _ in range(5)]
        one, four = (statistics.median(run[i] for run in runs) for i in (0, 1))
        yield Row(what="zero-length launch, 1 thread", value=one, unit="ns", limit=10)
        yield Row(what="zero-length launch, 4 threads", value=four, unit="ns", limit=10)
        yield _exactness(machine)


def _exactness(machine: Machine) -> Row:
    machine.burn("--count", "400", "--kernel-ms", "5", "--batch", "4", label="alone")
    intervals = machine.record().intervals(0)
    share = busy_share(intervals, intervals[0].start, intervals[-1].end)
    return Row(
        what="busy share of a client that waits every 4 x 5 ms", value=100 * share, unit="%", more_is_better=True,
        note="what is missing is the waiter's wake-up, on this machine now",
    )  # fmt: skip

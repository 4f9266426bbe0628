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
from tests.simgpu import clients
from tests.simgpu.launch_costs import launch_costs

LAUNCHES = "2000000"


def bench() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name))
        runs = [launch_costs(Path(name), machine.environment(), LAUNCHES) for _ in range(5)]
        one, four = (statistics.median(run[i] for run in runs) for i in (0, 1))
        yield Row(what="zero-length launch, 1 thread", value=one, unit="ns", limit=10)
        yield Row(what="zero-length launch, 4 threads", value=four, unit="ns", limit=10)
        costly = machine.environment(launch_cost="3us")
        runs = [launch_costs(Path(name), costly, "20000") for _ in range(3)]
        paid = statistics.median(run[0] for run in runs)
        yield Row(what="the same with SIMGPU_LAUNCH_COST=3us", value=paid, unit="ns", limit=3300, against="3000 set")
        yield _exactness(machine)
    with tempfile.TemporaryDirectory() as name:
        yield _overlap(Machine(Path(name), settings={"overlap": "4"}))


def _overlap(machine: Machine) -> Row:
    with machine.client() as client:
        took = client.call(clients.spread_over_streams, 4, 10)
    return Row(
        what="4 streams of 10 x 20 ms, SIMGPU_OVERLAP=4", value=took, unit="ms", limit=210, against="200 ideal",
    )  # fmt: skip


def _exactness(machine: Machine) -> Row:
    machine.burn("--count", "400", "--kernel-ms", "5", "--batch", "4", label="alone")
    intervals = machine.record().intervals(0)
    share = busy_share(intervals, intervals[0].start, intervals[-1].end)
    return Row(
        what="busy share of a client that waits every 4 x 5 ms", value=100 * share, unit="%", more_is_better=True,
        note="what is missing is the waiter's wake-up, on this machine now",
    )  # fmt: skip

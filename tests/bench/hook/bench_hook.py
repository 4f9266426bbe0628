"""The hook's figures on simgpu at speed 1, beside the bare stand-in or the limit that was set.

`make bench ROOM=hook` runs it.  A busy machine changes every figure but the overheads: these are the least processor
time of several rounds.
"""

import statistics
from collections.abc import Iterator

from tests.hook.support import measure
from tests.runners.bench import Row

DRAINS = [
    (["step_1ms"], 25.0),
    (["step_5ms"], 25.0),
    (["step_11ms"], 25.0),
    (["step_20ms"], 25.0),
    (["step_200ms"], 250.0),
    (["step_1ms", "step_200ms"], 250.0),
]


def bench() -> Iterator[Row]:
    yield from _overheads()
    yield from _handover()
    yield from _drains()
    yield from _neighbours()
    yield from _several_gpus()


def _overheads() -> Iterator[Row]:
    for threads in (1, 4):
        bare, hooked = measure.measure_overhead(threads)
        what = f"launch: over the bare call, {threads} thread{'s' * (threads > 1)}"
        yield Row(what=what, value=hooked - bare, unit="ns", limit=9, against=f"bare {bare:.1f} ns")
    bare, hooked = measure.measure_overhead(1, streams=2)
    what = "launch: over the bare call, two streams in turn"
    yield Row(what=what, value=hooked - bare, unit="ns", limit=15, against=f"bare {bare:.1f} ns")
    for live in (0, 20_000):
        bare, added = measure.measure_allocation(live)
        what = f"allocate and free: over the bare calls, {live} alive"
        yield Row(what=what, value=added / 2000, unit="us", limit=0.1, against=f"a call; bare {bare / 2000:.2f} us")


def _handover() -> Iterator[Row]:
    taken = measure.measure_handovers(12)
    what = f"hand-over, last launch to first launch, p50 of {len(taken)}"
    yield Row(
        what=what,
        value=taken[len(taken) // 2] / 1000,
        unit="ms",
        limit=0.12,
        against=f"p10 {taken[len(taken) // 10] / 1000:.3f}",
    )
    yield Row(what="hand-over, p99", value=taken[len(taken) * 99 // 100] / 1000, unit="ms")


def _drains() -> Iterator[Row]:
    for names, limit in DRAINS:
        drain = measure.measure_drain(names, yields=12, turn=0.7 if "step_200ms" in names else 0.25)
        kinds = " and ".join(name.removeprefix("step_") for name in names)
        yield Row(
            what=f"drain, kernels of {kinds}, p90 of 12",
            value=drain.p(90),
            unit="ms",
            limit=limit,
            against=f"p50 {drain.p(50):.1f}",
        )
        yield Row(
            what=f"  throughput lost to the bound, kernels of {kinds}", value=(1 - drain.busy) * 100, unit="%", limit=1
        )


def _neighbours() -> Iterator[Row]:
    waits = measure.measure_idle_but_held()
    yield Row(what="idle but held, somebody waiting: p50", value=statistics.median(waits), unit="ms", limit=20)
    lost = measure.measure_neighbour(16)
    yield Row(
        what="neighbour of a launch in 4 s: lost, of 120 s",
        value=lost * 120 / 16,
        unit="s",
        limit=1,
        note="(16 s measured)",
    )


def _several_gpus() -> Iterator[Row]:
    apart = measure.measure_per_device(6)
    yield Row(
        what="one process, two GPUs, each shared: least busy",
        value=apart.busy * 100,
        unit="%",
        limit=95,
        more_is_better=True,
    )
    gang = measure.measure_per_device(6, mode="gang")
    yield Row(
        what="a gang of two GPUs and two singles: least busy",
        value=gang.busy * 100,
        unit="%",
        limit=90,
        more_is_better=True,
    )
    yield Row(what="  the gang ran on half its GPUs", value=gang.halved, unit="s", limit=0)
    job = measure.measure_parallel(20)
    share = min(job.gang, job.singles) / ((job.gang + job.singles) / 2)
    yield Row(
        what="job of two processes with collectives, gang: of its fair share",
        value=share * 100,
        unit="%",
        limit=95,
        more_is_better=True,
    )
    yield Row(what="  both GPUs busy meanwhile", value=job.busy * 100, unit="%", limit=90, more_is_better=True)

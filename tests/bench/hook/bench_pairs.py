"""Two of simgpu's calibrated jobs at once, with the hook and the daemon, against one after the other.

Jobs, card and times are those of `tests.simgpu.calibration`, with every time divided by the number in the row.  Both
sides count from the start of the first process to the end of the last.
"""

from collections.abc import Iterator

from tests.hook.support.measure import calibrated, measure_jobs
from tests.runners.bench import Row
from tests.simgpu.calibration import WORKLOADS

NAMED = {workload.name: workload for workload in WORKLOADS}
BIG = [("big_50", 20, 1.35), ("big_90", 10, 1.0)]
SMALL = [((), 2.0), (("--side-by-side=never",), 5.0)]
SMALL_SCALE = 20


def bench() -> Iterator[Row]:
    for name, scale, limit in BIG:
        yield _big(name, scale, limit)
    yield from _small()


def _big(name: str, scale: int, limit: float) -> Row:
    with calibrated(scale=scale) as machine:
        alone = measure_jobs(machine, NAMED[name], jobs=1, hooked=False, scale=scale)
        together = measure_jobs(machine, NAMED[name], jobs=2, hooked=True, scale=scale)
    return Row(
        what=f"two jobs that do not fit, {name}: times faster than serial",
        value=2 * alone / together,
        unit="x",
        limit=limit,
        more_is_better=True,
        against=f"serial {2 * alone:.2f} s, together {together:.2f} s",
        note=f"(times / {scale})",
    )


def _small() -> Iterator[Row]:
    workload = NAMED["small_50"]
    with calibrated(scale=SMALL_SCALE) as machine:
        free = measure_jobs(machine, workload, jobs=2, hooked=False, scale=SMALL_SCALE)
    for flags, limit in SMALL:
        with calibrated(*flags, scale=SMALL_SCALE) as machine:
            together = measure_jobs(machine, workload, jobs=2, hooked=True, scale=SMALL_SCALE)
        yield Row(
            what=f"two jobs that fit, {workload.name}: over no lock {' '.join(flags)}".rstrip(),
            value=(together / free - 1) * 100,
            unit="%",
            limit=limit,
            against=f"free {free:.2f} s, together {together:.2f} s",
            note=f"(times / {SMALL_SCALE})",
        )

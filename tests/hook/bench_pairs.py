"""Two calibrated jobs at once, by the hook and the daemon, against one after the other; every time divided by 20."""

from collections.abc import Iterator

from tests.bench import Row
from tests.hook.measure import SCALE, measure_pair

BIG = [("big_50", 0.5, 1385.0), ("big_90", 0.9, 724.0)]
SMALL = [((), 2.0), (("--side-by-side=never",), 5.0)]


def bench() -> Iterator[Row]:
    note = f"(times / {SCALE})"
    for name, share, solo in BIG:
        serial, together = measure_pair(15.3, share, solo)
        what = f"two jobs that do not fit, {name}: times faster than serial"
        yield Row(what=what, value=serial / together, unit="x", limit=1.0, more_is_better=True, note=note)
    _, free = measure_pair(7.2, 0.5, 1332.0, hooked=False)
    for flags, limit in SMALL:
        _, together = measure_pair(7.2, 0.5, 1332.0, *flags)
        what = f"two jobs that fit, small_50: over no lock {' '.join(flags)}"
        yield Row(what=what, value=(together / free - 1) * 100, unit="%", limit=limit, note=note)

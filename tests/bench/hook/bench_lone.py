"""What the hook costs a program that has the GPU to itself, and what its first neighbour waits for.

Ratios are of one run: hooked against bare, in turn.  The software GPU executes four streams at once.
"""

from collections.abc import Iterator

from tests.hook.support import lone
from tests.runners.bench import Row

FAMILIES = {
    "one": ("one stream, 1 ms kernels", 1.02),
    "small": ("one stream, 10 us kernels", 1.05),
    "ahead": ("one stream, 100 ms queued, 90 ms of host work, synchronise", 1.02),
    "200+1": ("two streams, 200 + 1 ms", 1.02),
    "25+1": ("two streams, 25 + 1 ms", 1.02),
    "10+10": ("two streams, 10 + 10 ms", 1.02),
    "2+2": ("two streams, 2 + 2 ms", 1.02),
    "4x5": ("four streams of 5 ms", 1.02),
    "receive": ("a kernel that waits 300 ms beside compute", 1.02),
    "alternating": ("one thread, two streams in turn, 20 us", 1.05),
    "graphs": ("graphs of 20 kernels", 1.05),
    "copies": ("copies beside kernels", 1.05),
    "shapes": ("a new shape each launch, 10 us", 1.1),
    "allocations": ("allocate and free", 1.05),
}
RECORDED = {
    "one stream": ("lone", "one"),
    "small kernels": ("lone", "small"),
    "200 + 1 ms": ("lone", "200+1"),
    "10 + 10 ms": ("lone", "10+10"),
    "two streams in turn": ("lone", "alternating"),
    "queued 100 ms, host 90 ms": ("lone", "ahead"),
    "new shapes": ("lone", "shapes"),
    "5 ms every 20 ms": ("bursts", "step_5ms", "20", "40"),
}
HOLDERS = {
    "1 ms, 1 stream": (["step_1ms"], 1),
    "5 ms, 4 streams": (["step_5ms"] * 4, 5),
    "20 ms, 4 streams": (["step_20ms"] * 4, 20),
    "200 ms, 1 stream": (["step_200ms"], 200),
    "200 + 1 ms": (["step_200ms", "step_1ms"], 200),
}
ALONE_FOR = 3.0
"""Seconds for which a holder is alone before its first neighbour comes."""
ALONE_FLIGHT = 1000
"""Milliseconds that may be in flight then: nobody has ever waited there."""


def bench() -> Iterator[Row]:
    yield from _alone()
    yield from _recorded()
    yield from _neighbours()
    yield Row(
        what="two equal programs side by side, 20 us kernels: slower / faster",
        value=lone.measure_equals(),
        unit="x",
        limit=1.03,
        note="(median of 3)",
    )


def _alone() -> Iterator[Row]:
    with lone.lone_machine() as machine:
        for family, (words, limit) in FAMILIES.items():
            took = lone.measure_family(machine, family)
            against = f"bare {took.bare:.3f} s, hooked {took.hooked:.3f} s"
            yield Row(what=f"alone: {words}", value=took.ratio, unit="x", limit=limit, against=against)


def _recorded() -> Iterator[Row]:
    for words, (program, *arguments) in RECORDED.items():
        time = lone.measure_in_flight(program, *arguments)
        against = f"said {time.said:.3f} s, recorded {time.recorded:.3f} s"
        what = f"time in flight, off the record: {words}"
        yield Row(what=what, value=time.off_percent, unit="%", limit=2, against=against)


def _neighbours() -> Iterator[Row]:
    for words, (kernels, longest) in HOLDERS.items():
        waits = lone.measure_visits(kernels, visits=8, after=ALONE_FOR, pause_ms=150)
        # A stream may have one launch begun and one let in behind it.
        most = 25 + longest * len(kernels)
        first = ALONE_FLIGHT + longest * len(kernels) + 5
        yield Row(what=f"first wait of a neighbour after 3 s, {words}", value=waits[0], unit="ms", limit=first)
        later = sorted(waits[1:])
        against = f"p50 {later[len(later) // 2]:.1f}"
        what = f"  its later waits: the longest of 7, {words}"
        yield Row(what=what, value=later[-1], unit="ms", limit=most, against=against)

"""`make drills`: each rule of the work in flight, deleted from a copy of the source, is missed by the measurements."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.hook.support.flying import drain_of, seconds_of
from tests.hook.support.machine import ROOT, Machine
from tests.runners.drills import Drill

QUIET = 10_000
ONE_A_STREAM = [
    (
        "    if (is_empty)\n        return true;\n",
        "    uint64_t sum = 0;\n    for (const struct stream *s = flight->busy; s; s = s->next_busy)\n"
        "        sum += remaining_ns(s, now), is_empty &= !s->oldest;\n    if (is_empty)\n        return true;\n",
    ),
    (
        "uint64_t remaining = remaining_ns(stream, now), share = share_ns(stream, now);\n    if (is_unknown)",
        "uint64_t remaining = sum, share = bound_ns(flight, now);\n    if (is_unknown)",
    ),
]
ALWAYS_20_MS = [("return later(least_bound_ns, sooner(", "return least_bound_ns + 0 * later(least_bound_ns, sooner(")]
ALWAYS_A_SECOND = [
    ("        return least_bound_ns;\n    return later", "        return most_bound_ns;\n    return later")
]


def mutated(folder: Path, changes: list[tuple[str, str]]) -> Path:
    """Build the hook with these changes of flight.c, and return the library."""
    source = folder / "hook"
    shutil.copytree(ROOT / "hook", source)
    flight = source / "flight" / "flight.c"
    text = flight.read_text()
    for before, after in changes:
        assert text.count(before) == 1, f"flight.c has changed: {before!r} stands {text.count(before)} times in it"
        text = text.replace(before, after)
    flight.write_text(text)
    subprocess.run(["make", "-s", "-C", str(source), f"OUT={folder / 'build'}"], check=True)
    return folder / "build" / "libnvshare.so"


def _measured(changes: list[tuple[str, str]], measure: Callable[[Machine], float]) -> float:
    with tempfile.TemporaryDirectory() as name:
        hook = mutated(Path(name), changes)
        (machine_folder := Path(name) / "m").mkdir()
        return measure(Machine(machine_folder, hook=hook))


def streams_that_are_summed_are_found_out() -> str:
    took = _measured(ONE_A_STREAM, lambda machine: seconds_of(machine, "25+1", waiting=1, keep_ms=1000))
    assert took > 1.4, f"two streams summed: {took:.2f} s; the tests would not see it"
    return f"25 + 1 ms in two streams take {took:.2f} s, 1.00 with a bound each"


def a_bound_that_never_grows_is_found_out() -> str:
    took = _measured(ALWAYS_20_MS, lambda machine: seconds_of(machine, "ahead", waiting=0, quiet_ms=QUIET))
    assert took > 1.4, f"always 20 ms: {took:.2f} s; the tests would not see it"
    return f"a program that queues 100 ms ahead takes {took:.2f} s, 1.00 when it may"


def a_bound_that_never_shrinks_is_found_out() -> str:
    took = _measured(ALWAYS_A_SECOND, lambda machine: drain_of(machine, waiting=1, keep_ms=1000))
    assert took > 0.15, f"always a second: drained in {took:.3f} s; the tests would not see it"
    return f"a yield waits for {took * 1000:.0f} ms while somebody waits, 20 with the rule"


DRILLS = [
    Drill("deleted: one bound a stream", streams_that_are_summed_are_found_out),
    Drill("deleted: the bound grows while nobody waits", a_bound_that_never_grows_is_found_out),
    Drill("deleted: the bound shrinks when somebody waits", a_bound_that_never_shrinks_is_found_out),
]

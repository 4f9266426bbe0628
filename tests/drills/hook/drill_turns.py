"""`make drills`: no launch without a turn, at the full count; and the same drill on a gate that was weakened."""

from tests.hook.support.machine import hook_built
from tests.hook.support.yielding import rounds
from tests.runners.drills import Drill, count


def no_launch_without_a_turn() -> str:
    outcome = rounds(count(100_000))
    assert outcome.kernels > outcome.yields, f"hardly anything was launched: {outcome.line()}"
    assert not outcome.outside, outcome.line()
    return outcome.line()


def a_weakened_gate_is_found_out() -> str:
    outcome = rounds(count(2_000), hook=hook_built("weakened", EXTRA="-DNVSHARE_WEAKENED_GATE"))
    assert outcome.outside, f"the drill does not see a weakened gate: {outcome.line()}"
    return outcome.line()


DRILLS = [
    Drill("no launch without a turn", no_launch_without_a_turn),
    Drill("a weakened gate is found out by that drill", a_weakened_gate_is_found_out),
]

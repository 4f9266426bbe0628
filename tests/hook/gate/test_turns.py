"""No launch without a turn, at a reduced count; `make drills` does it 100,000 times."""

import pytest

from tests.hook.support.machine import hook_built
from tests.hook.support.yielding import rounds


@pytest.mark.slow
def test_nothing_is_executed_outside_a_turn() -> None:
    outcome = rounds(1_000)

    assert outcome.outside == 0, outcome.line()
    assert outcome.kernels > outcome.yields


@pytest.mark.slow
def test_the_drill_sees_a_weakened_gate() -> None:
    weakened = hook_built("weakened", EXTRA="-DNVSHARE_WEAKENED_GATE")

    # on a busy machine 600 yields see a twelfth of the kernels, and may miss it
    assert any(rounds(600, hook=weakened).outside for _ in range(20))

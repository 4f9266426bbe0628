"""Whatever clients, clocks and operators do, in whatever order: the core's promises, searched for a counter-example.

Safety is checked after every single order by `stage.Floor`; here stand the moves, and the promises that need a while.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from tests.schedulerd.core.moves import VISITED, Scheduler


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(20, id="a second's worth of moves in every order"),
        pytest.param(200, id="many of them", marks=pytest.mark.slow),
    ],
)
def test_nothing_that_anybody_does_breaks_a_promise(examples, capsys):
    VISITED.clear()
    run_state_machine_as_test(
        Scheduler,
        settings=settings(
            max_examples=examples, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    with capsys.disabled():
        print(f"\n  {len(VISITED)} states visited", end=" ")  # noqa: T201  the count is the test's figure
    assert len(VISITED) > 2 * examples

"""The node's drills at reduced counts; `make drills ROOM=install` runs them in full."""

from collections.abc import Callable

import pytest

from tests.install.drill_node import STEPS, rotate_the_authority, working_pods
from tests.install.house import House

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.mark.parametrize(
    ("step", "full"), [(step, full) for _, step, full in STEPS], ids=[what for what, _, _ in STEPS]
)
def test_nobody_notices(house: House, step: Callable[[House, str, int], str], full: int) -> None:
    times = full // 5 if step is rotate_the_authority else 1
    with working_pods(house) as namespace:
        assert step(house, namespace, times)

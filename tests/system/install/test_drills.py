"""The node's drills at reduced counts; `make drills ROOM=install` runs them in full."""

from collections.abc import Callable

import pytest

from testbed.cluster.installed import House
from tests.system.install.mishaps import (
    STEPS,
    knock_on_every_port,
    restart_the_api_server,
    roll_everything,
    rotate_the_authority,
    working_pods,
)

pytestmark = [pytest.mark.node, pytest.mark.slow]


LEFT_TO_DRILLS = (roll_everything, restart_the_api_server)
"""The first is in the upgrade's test, too."""
HERE = [step for step in STEPS if step[1] not in LEFT_TO_DRILLS]


@pytest.mark.parametrize(("step", "full"), [step[1:] for step in HERE], ids=[step[0] for step in HERE])
def test_pods_go_on_and_none_is_refused(house: House, step: Callable[[House, str, int], str], full: int) -> None:
    times = full // 10 if step in (rotate_the_authority, knock_on_every_port) else 1
    with working_pods(house) as namespace:
        assert step(house, namespace, times)

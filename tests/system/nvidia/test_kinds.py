"""Two kinds of GPU nodes with NVIDIA's own toolkit, the whole path on each; `make drills ROOM=nvidia` has all."""

from collections.abc import Iterator

import pytest

from testbed.cluster.errors import MissingError
from testbed.nvidia.bed import Bed, nvidia_bed
from testbed.nvidia.kinds import BY_NAME
from tests.plugins.kubernetes import unavailable
from tests.system.nvidia import whole_path

pytestmark = [pytest.mark.node, pytest.mark.slow]
CHOSEN = ("operator-25.10", "hardened")
"""The two on which pods had no GPU before our specs carried NVIDIA's edits."""


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    try:
        with nvidia_bed() as made:
            yield made
    except MissingError as error:
        unavailable(error)


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.timeout(600)
def test_daemons_start_and_pods_get_exactly_their_cards_on(name: str, bed: Bed) -> None:
    bed.become(BY_NAME[name])
    bed.apply()
    try:
        for step in (whole_path.daemons_start, whole_path.gets_its_card, whole_path.tricks_fail, whole_path.bursts):
            with whole_path.namespace(bed) as team:
                step(bed, team)
    finally:
        bed.remove_daemons()

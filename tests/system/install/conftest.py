"""One installed node for all tests of this folder, and namespaces of every kind on it."""

import secrets
from collections.abc import Callable, Iterator

import pytest

from testbed.cluster.errors import MissingError
from testbed.cluster.installed import House, installed_house
from tests.plugins.kubernetes import unavailable
from tests.system.install.bypasses import OPTED_IN


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    try:
        with installed_house() as made:
            yield made
    except MissingError as error:
        unavailable(error)


@pytest.fixture
def room(house: House) -> Iterator[Callable[..., str]]:
    """Return `room(labels=…, annotations=…)`, which makes a namespace; its pods are gone afterwards."""
    made: list[str] = []

    def make(**about: dict[str, str]) -> str:
        made.append(house.plane.create_namespace(f"t-{secrets.token_hex(4)}", **about))
        return made[-1]

    yield make
    for name in made:
        house.delete_pods(name)


@pytest.fixture
def team(room: Callable[..., str]) -> str:
    """Make a namespace that opted in."""
    return room(labels=OPTED_IN)

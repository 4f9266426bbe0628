"""The scene as fixtures: one control plane for all, everything but it fresh for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import MissingError
from tests.cluster.fixtures import unavailable
from tests.webhook_certs import scene
from tests.webhook_certs.replica import Replica


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    try:
        with scene.installed_plane() as running:
            yield running
    except MissingError as error:
        unavailable(error)


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[ControlPlane]:
    with scene.fresh(plane):
        yield plane


@pytest.fixture
def running(clean: ControlPlane, tmp_path: Path) -> Iterator[list[Replica]]:
    with scene.two_replicas(clean, tmp_path) as both:
        yield both


@pytest.fixture
def opted_in(plane: ControlPlane) -> str:
    return scene.opted_in_namespace(plane)

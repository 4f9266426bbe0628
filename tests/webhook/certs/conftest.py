"""The scene as fixtures: one control plane for all, everything but it fresh for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster.errors import MissingError
from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.webhook_replica import Replica
from tests.plugins.kubernetes import unavailable
from tests.webhook.certs import scene


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

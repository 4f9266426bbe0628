"""Rotations of the CA under load: complete ones, and ones that die after each of their steps."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.runners.drills import Drill, count
from tests.webhook.certs import scene
from tests.webhook.certs.pod_load import Load
from tests.webhook.certs.rotations import dies_after, figures, rotate_until
from webhook.certs.core.phases import Asked

ENOUGH = 2_000
_STEPS = 8
"""start, publish, mark, swap, mark, mark, publish, finish."""


def complete_rotations() -> str:
    with _loaded(lambda plane, load: rotate_until(plane, load, count(ENOUGH))) as figures:
        return figures


def dying_rotations() -> str:
    with _loaded(lambda plane, load: _die_until(plane, load, count(ENOUGH))) as figures:
        return figures


def _die_until(plane: ControlPlane, load: Load, enough: int) -> str:
    deaths = 0
    while load.total < enough or deaths < count(_STEPS):
        deaths += dies_after(plane, 1 + deaths % _STEPS)
        scene.run(plane, Asked.DUE)
        assert scene.is_whole(plane)
    return f"{deaths} deaths"


@contextmanager
def _loaded(work: Callable[[ControlPlane, Load], str]) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        scene.installed_plane() as plane,
        scene.two_replicas(plane, Path(folder)) as running,
    ):
        yield figures(plane, running, work)


DRILLS = [
    Drill("CA rotations under load: pods refused", complete_rotations),
    Drill("CA rotations killed after each of their steps under load: pods refused", dying_rotations),
]

"""Rotations of the CA under load: complete ones, and ones that die after each of their steps."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.webhook_replica import Replica
from tests.runners.drills import Drill, count
from tests.webhook.certs import scene
from tests.webhook.certs.pod_load import Load, rejections, under_load
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


def rotate_until(plane: ControlPlane, load: Load, enough: int) -> str:
    rotations = 0
    while load.total < enough or not rotations:
        scene.run(plane, Asked.AUTHORITY)
        rotations += 1
    return f"{rotations} complete rotations"


def _die_until(plane: ControlPlane, load: Load, enough: int) -> str:
    deaths = 0
    while load.total < enough or deaths < count(_STEPS):
        deaths += dies_after(plane, 1 + deaths % _STEPS)
        scene.run(plane, Asked.DUE)
        assert scene.is_whole(plane)
    return f"{deaths} deaths"


def dies_after(plane: ControlPlane, step: int) -> bool:
    """A rotation of the CA in a process of its own that kills itself after so many steps."""
    command = [sys.executable, "-m", "tests.webhook.certs.doomed", str(plane.kubeconfig), str(step)]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == -signal.SIGKILL


@contextmanager
def _loaded(work: Callable[[ControlPlane, Load], str]) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        scene.installed_plane() as plane,
        scene.two_replicas(plane, Path(folder)) as running,
    ):
        yield figures(plane, running, work)


def figures(plane: ControlPlane, running: list[Replica], work: Callable[[ControlPlane, Load], str]) -> str:
    """What came of pods created while `work` went on; raises when one was refused."""
    namespace, before = scene.opted_in_namespace(plane), rejections(plane)
    accepted = sum(replica.server.accepted for replica in running)
    with under_load(plane, namespace) as load:
        done = work(plane, load)
    fresh = sum(replica.server.accepted for replica in running) - accepted
    assert not load.refusals, load.refusals[:3]
    assert rejections(plane) == before
    assert scene.is_whole(plane)
    assert fresh * 10 >= load.total, f"only {fresh} fresh connections to the webhook for {load.total} pods"
    return f"{load.total} pods, 0 refused, {fresh} fresh connections to the webhook, {done}"


DRILLS = [
    Drill("CA rotations under load: pods refused", complete_rotations),
    Drill("CA rotations killed after each of their steps under load: pods refused", dying_rotations),
]

"""Rotations under load, and ones that kill themselves after a step."""

import signal
import subprocess
import sys
from collections.abc import Callable

from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.webhook_replica import Replica
from tests.webhook.certs import scene
from tests.webhook.certs.pod_load import Load, rejections, under_load
from webhook.certs.core.phases import Asked


def rotate_until(plane: ControlPlane, load: Load, enough: int) -> str:
    rotations = 0
    while load.total < enough or not rotations:
        scene.run(plane, Asked.AUTHORITY)
        rotations += 1
    return f"{rotations} complete rotations"


def dies_after(plane: ControlPlane, step: int) -> bool:
    """Run a rotation of the CA in a process that kills itself after so many steps; tell whether it died."""
    command = [sys.executable, "-m", "tests.webhook.certs.doomed", str(plane.kubeconfig), str(step)]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == -signal.SIGKILL


def figures(plane: ControlPlane, running: list[Replica], work: Callable[[ControlPlane, Load], str]) -> str:
    """Return figures on the pods created during `work`; raise where one was refused."""
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

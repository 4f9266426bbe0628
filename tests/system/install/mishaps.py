"""Faults on a node with everything installed and pods with vGPUs running: no pod may notice them.

Each function takes the installed node (`House`) and returns its figures.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from testbed.cluster.installed import COMPONENTS, SYSTEM, House, Wish, pod
from testbed.cluster.machine.processes import wait_until
from tests.system.install.strangers import NODE_DAEMONS, flood
from tests.webhook.certs.pod_load import Load, rejections, under_load

WORKERS = 3
_REPLICAS = 2
_KNOCKS = 1_000

Object = dict[str, Any]


_POLITE = ("--trust-seconds", "5", "--linger-seconds", "5")
"""One API server, on this machine; the defaults are for a fleet."""


@contextmanager
def working_pods(house: House) -> Iterator[str]:
    """Run pods that compute all along; raise when one of them died or was started again."""
    namespace = house.plane.create_namespace(f"d-{secrets.token_hex(4)}", labels={"nvshare.com/injection": "enabled"})
    names = [f"worker{number}" for number in range(WORKERS)]
    try:
        house.start(namespace, *(pod(name) for name in names))
        before = {name: executed(house, name) for name in names}
        yield namespace
        for name in names:
            assert house.phase(namespace, name) == "Running", f"{name} died"
            wait_until(partial(_goes_on, house, name, before[name]), what=f"{name} goes on computing", seconds=30)
        starts = house.kubectl(
            "get", "pods", "-n", namespace, "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}"
        )
        assert set(starts.split()) == {"0"}, "a worker was started again"
    finally:
        house.delete_pods(namespace)


def _goes_on(house: House, label: str, since: float) -> bool:
    return executed(house, label) > since


def executed(house: House, label: str) -> float:
    """Return when a pod last computed, from the software GPU's record."""
    record = house.record()
    ends = (
        interval.end
        for card in record.cards
        for interval in record.intervals(card.index)
        if interval.owner.label == label
    )
    return max(ends, default=0.0)


def webhook_pods(house: House) -> list[str]:
    """Return the webhook pods that are not ending, the oldest first."""
    staying = [pod["metadata"] for pod in _staying(house)]
    return [about["name"] for about in sorted(staying, key=lambda about: str(about["creationTimestamp"]))]


def ready_webhooks(house: House) -> list[Object]:
    """Return the webhook pods that take the API server's calls and are not ending."""
    return [pod for pod in _staying(house) if _readiness(pod).get("status") == "True"]


def _staying(house: House) -> list[Object]:
    listed = house.json("-n", SYSTEM, "get", "pods", "-l", "app.kubernetes.io/name=nvshare-webhook")["items"]
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]


def _readiness(pod: Object) -> Object:
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == "Ready"), {})


def kill_webhooks_in_turn(house: House, namespace: str, times: int) -> str:
    """Delete the replicas, each after the other is ready, while pods are created."""
    with loaded(house, namespace) as load:
        for _ in range(times):
            house.kubectl("-n", SYSTEM, "delete", "pod", webhook_pods(house)[0], "--wait=false")
            # not `rollout status`, which says for a while after a deletion what was so before it
            wait_until(lambda: len(ready_webhooks(house)) == _REPLICAS, what="its successor is ready", seconds=120)
    return f"{load.total} pods, {times} replicas gone, 0 refused"


def rotate_the_authority(house: House, namespace: str, enough: int) -> str:
    """Complete rotations by the real command, through the real Service, while pods are created."""
    rotations = 0
    with loaded(house, namespace) as load:
        while load.total < enough or not rotations:
            command = ("nvshare-webhook", "certs", "rotate", "--what", "authority", *_POLITE)
            house.kubectl("-n", SYSTEM, "exec", "deploy/nvshare-webhook", "--", *command)
            rotations += 1
    return f"{load.total} pods, {rotations} complete rotations, 0 refused"


def roll_everything(house: House, _namespace: str, times: int) -> str:
    """Replace every component."""
    for _ in range(times):
        for component in COMPONENTS:
            house.kubectl("-n", SYSTEM, "rollout", "restart", component)
        house.wait_ready()
    house.wait_until_alone()  # an old replica's end may refuse a pod of the next drill: see docs/runbooks.md
    return f"{times} rollouts of {len(COMPONENTS)} components"


def restart_the_api_server(house: House, _namespace: str, times: int) -> str:
    for _ in range(times):
        house.plane.processes["kube-apiserver"].restart()
        house.plane.wait_ready()
        house.wait_ready()
    return f"{times} restarts"


def kill_the_daemons(house: House, _namespace: str, times: int) -> str:
    """Kill scheduler and device plugin with SIGKILL, without grace."""
    names = ",".join(component.partition("/")[2] for component in COMPONENTS[1:])
    for _ in range(times):
        house.kubectl(
            *("-n", SYSTEM, "delete", "pods", "-l", f"app.kubernetes.io/name in ({names})"),
            "--grace-period=0",
            "--force",
        )
        house.wait_ready()
    return f"{times} times"


def upgrade_the_hook(house: House, namespace: str, times: int) -> str:
    """Replace the node's hook by another file; the next plugin puts its own there, by rename."""
    hook = house.node.path("/var/lib/nvshare/hook/libnvshare.so")
    right = hook.read_bytes()
    for number in range(times):
        old = hook.with_name(".old")
        old.write_bytes(right + b"\0" * 64)
        old.rename(hook)
        house.start(namespace, pod(f"on-old-{number}"))
        house.kubectl("-n", SYSTEM, "rollout", "restart", COMPONENTS[1])
        house.wait_ready()
        assert hook.read_bytes() == right, "a plugin is Ready and has not put its hook on the node"
        assert house.phase(namespace, f"on-old-{number}") == "Running"
        house.start(namespace, pod(f"on-new-{number}", Wish(command=("burn", "--seconds", "1"))))
    return f"{times} upgrades"


@contextmanager
def loaded(house: House, namespace: str) -> Iterator[Load]:
    """Create pods while the block runs; raise when we, or the API server's own count, refused one."""
    before = rejections(house.plane)
    with under_load(house.plane, namespace) as load:
        yield load
    assert not load.refusals, load.refusals[:3]
    assert rejections(house.plane) == before


def knock_on_every_port(house: House, namespace: str, seconds: int) -> str:
    """Open silent connections to each port, again as soon as they are ended, while pods are created."""
    with loaded(house, namespace) as load:
        found = flood(house, connections=_KNOCKS, seconds=seconds)
    assert not found.restarts, found
    assert not found.failed_liveness, found
    assert not found.failed_probes.keys() & set(NODE_DAEMONS), found
    assert len(found.scrapes) > 9 * found.lost_scrapes, found
    return f"{_KNOCKS} connections to each port for {seconds} s: {load.total} pods, 0 refused, {found}"


STEPS: tuple[tuple[str, Callable[[House, str, int], str], int], ...] = (
    ("webhook replicas killed in turn under load: pods refused", kill_webhooks_in_turn, 6),
    ("CA rotations under load, real Service and replicas: pods refused", rotate_the_authority, 2_000),
    ("rolling update of every component: applications that died", roll_everything, 2),
    ("API server restarted: applications that died", restart_the_api_server, 2),
    ("scheduler and device plugin killed: applications that died", kill_the_daemons, 3),
    ("hook upgraded while old pods run: applications that died", upgrade_the_hook, 2),
    ("silent connections to every port for three minutes: restarts", knock_on_every_port, 180),
)

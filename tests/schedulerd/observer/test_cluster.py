"""The API side: own pods are watched, events reach them, a pod that the watch has not shown is asked for."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from kubernetes.client import CoreV1Api, V1Container, V1ObjectMeta, V1Pod, V1PodSpec

from adapters.kubernetes.client import connect
from schedulerd.observer.cluster import Cluster
from schedulerd.observer.pod_facts import Owner
from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.api_server import FakeApiServer, Reply, fake_api_server
from tests.fakes.wire.client import PATIENCE

NODE = "node-of-ours"
T = TypeVar("T")


def until(said: Callable[[], T | None]) -> T:
    """Return what a function says, as soon as it says something."""
    end = time.monotonic() + PATIENCE
    while not (found := said()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
    return found


def create_pod(core: CoreV1Api, namespace: str, name: str, *, node: str = NODE, **annotations: str) -> str:
    """Create a pod that is bound to a node; return its uid."""
    spec = V1PodSpec(node_name=node, containers=[V1Container(name="main", image="none")])
    pod = V1Pod(metadata=V1ObjectMeta(name=name, annotations=annotations), spec=spec)
    made = core.create_namespaced_pod(namespace, pod).metadata
    assert made is not None
    assert made.uid is not None
    return made.uid


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def joined(api_server: ControlPlane) -> Iterator[Cluster]:
    one = Cluster(NODE, connect(str(api_server.kubeconfig)))
    one.start()
    until(lambda: one.watching)
    yield one
    one.stop()
    assert one._watch._thread is not None
    assert not one._watch._thread.is_alive()


def test_the_same_is_told_of_a_container_once_a_minute_and_of_its_namesakes_too(fake: FakeApiServer) -> None:
    cluster = Cluster(NODE, fake.api)
    owners = [
        Owner("team-a", "train-0", "main"),
        Owner("team-b", "train-0", "main"),
        Owner("team-a", "train-0", "side"),
    ]
    for owner in (*owners, owners[0]):
        cluster.tell(owner, reason="GpuTurnOverdue", message=f"Container {owner.container} did not yield GPU-1")
    cluster._events.start()
    told = [
        (one.path.split("/")[4], one.body["message"].split()[1], one.body["count"]) for one in fake.wait_for_requests(3)
    ]
    cluster.tell(owners[1], reason="GpuTurnOverdue", message="Container main did not yield GPU-1, GPU-2")
    cluster.tell_node(reason="GpuUsedWithoutTurns", message="GPU-1 is used by 7", topic="GPU-1")
    last = fake.wait_for_requests(4)[3]
    cluster.stop()

    assert told == [("team-a", "main", 2), ("team-b", "main", 1), ("team-a", "side", 1)]
    assert last.body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
    assert len(fake.requests) == 4, "the other GPUs of an event are no other event"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply({"message": "not found"}, 404), id="not there"),
        pytest.param(Reply({"message": "down"}, 500), id="an error"),
        pytest.param(Reply(b"<html>"), id="a page of a proxy"),
        pytest.param(Reply({"spec": {"containers": [3]}}), id="an object of no such kind"),
    ],
)
def test_a_pod_that_cannot_be_read_is_none_and_its_container_keeps_the_defaults(
    fake: FakeApiServer, reply: Reply
) -> None:
    fake.answers = [reply]

    assert Cluster(NODE, fake.api).pod(Owner("team", "train-0", "main")) is None


@pytest.mark.cluster
def test_own_pods_are_known_without_asking_and_others_are_not_kept(
    api_server: ControlPlane, namespace: str, joined: Cluster
) -> None:
    core = CoreV1Api(api_server.client())
    create_pod(core, namespace, "ours", **{"nvshare.com/weight": "300"})
    create_pod(core, namespace, "theirs", node="another")
    summary = until(lambda: joined._pods.get((namespace, "ours")))

    assert summary.annotations == {"nvshare.com/weight": "300"}
    assert (namespace, "theirs") not in joined._pods
    assert joined.pod(Owner(namespace, "nobody", "main")) is None


@pytest.mark.cluster
def test_an_event_reaches_the_pod_once_a_minute(api_server: ControlPlane, namespace: str, joined: Cluster) -> None:
    core = CoreV1Api(api_server.client())
    create_pod(core, namespace, "late")
    until(lambda: joined._pods.get((namespace, "late")))
    for _ in range(3):
        joined.tell(Owner(namespace, "late", "main"), reason="GpuTurnOverdue", message="did not yield")
    events = until(lambda: core.list_namespaced_event(namespace, field_selector="involvedObject.name=late").items)

    assert [(one.reason, one.involved_object.uid != "") for one in events] == [("GpuTurnOverdue", True)]
    assert joined.dropped_events == 0


@pytest.mark.cluster
def test_a_pod_made_again_under_its_name_while_nobody_watches_is_asked_for(
    api_server: ControlPlane, namespace: str, joined: Cluster
) -> None:
    core = CoreV1Api(api_server.client())
    owner = Owner(namespace, "train-0", "main")
    old = create_pod(core, namespace, "train-0")
    until(lambda: joined._pods.get((namespace, "train-0")))
    joined.stop()
    core.delete_namespaced_pod("train-0", namespace, grace_period_seconds=0)
    new = create_pod(core, namespace, "train-0")

    def uid_of_pod(uid: str = "") -> str:
        found = joined.pod(owner, uid)
        return found.uid if found else "none"

    assert [uid_of_pod(old), uid_of_pod(new), uid_of_pod()] == [old, new, new]
    joined._watch.is_following = True  # a server that has gone without a word
    assert uid_of_pod(new) == new

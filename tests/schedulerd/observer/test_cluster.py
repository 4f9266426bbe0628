"""The API side against a real API server: own pods are watched, events reach them, a broken watch begins anew."""

import time
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from schedulerd.observer import cluster as module
from schedulerd.observer.pod_facts import Owner
from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.wire.client import PATIENCE

pytestmark = pytest.mark.cluster
NODE = "node-of-ours"


def until(said: Any) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := said()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
    return found


def a_pod(name: str, node: str = NODE, **annotations: Any) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
    }


@pytest.fixture
def joined(api_server: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(module, "_configuration", lambda: api_server.client().configuration)
    one = module.Cluster(NODE)
    one.start()
    until(lambda: one.watching)
    yield one
    one.stop()
    assert one._thread is not None
    assert not one._thread.is_alive()


def test_own_pods_are_known_without_asking_and_others_are_not_kept(
    api_server: ControlPlane, namespace: str, joined: Any
) -> None:
    core = kubernetes.client.CoreV1Api(api_server.client())
    core.create_namespaced_pod(namespace, a_pod("ours", **{"nvshare.com/weight": "300"}))
    core.create_namespaced_pod(namespace, a_pod("theirs", node="another"))
    summary = until(lambda: joined._pods.get((namespace, "ours")))

    assert summary.annotations == {"nvshare.com/weight": "300"}
    assert (namespace, "theirs") not in joined._pods
    assert joined.pod(Owner(namespace, "nobody", "main")) is None


def test_an_event_reaches_the_pod_once_a_minute(api_server: ControlPlane, namespace: str, joined: Any) -> None:
    core = kubernetes.client.CoreV1Api(api_server.client())
    core.create_namespaced_pod(namespace, a_pod("late"))
    until(lambda: joined._pods.get((namespace, "late")))
    owner = Owner(namespace, "late", "main")
    told = [joined.tell(owner, reason="GpuTurnOverdue", message="did not yield") for _ in range(3)]
    events = core.list_namespaced_event(namespace, field_selector="involvedObject.name=late").items

    assert told == [True, False, False]
    assert [(one.reason, one.involved_object.uid != "") for one in events] == [("GpuTurnOverdue", True)]


def test_a_pod_made_again_under_its_name_while_nobody_watches_is_asked_for(
    api_server: ControlPlane, namespace: str, joined: Any
) -> None:
    core = kubernetes.client.CoreV1Api(api_server.client())
    owner = Owner(namespace, "train-0", "main")
    core.create_namespaced_pod(namespace, a_pod("train-0"))
    old = until(lambda: joined._pods.get((namespace, "train-0"))).uid
    joined.stop()
    core.delete_namespaced_pod("train-0", namespace, grace_period_seconds=0)
    created: Any = core.create_namespaced_pod(namespace, a_pod("train-0"))
    new = created.metadata.uid

    assert joined.pod(owner, old).uid == old
    assert joined.pod(owner, new).uid == new
    assert joined.pod(owner).uid == new
    joined.watching = True  # a server that has gone without a word
    assert joined.pod(owner, new).uid == new

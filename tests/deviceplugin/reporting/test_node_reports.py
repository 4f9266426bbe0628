"""The requests to the API server about this node, and how its answers are handled."""

from collections.abc import Callable, Iterator

import pytest

from adapters.errors import NoCluster
from adapters.kubernetes.client import ApiServer
from deviceplugin.core.events import NodeEvent
from deviceplugin.reporting.node_reports import Cluster, ClusterUnavailable, KubernetesCluster
from tests.fakes.api_server import FakeApiServer, Reply, fake_api_server

INFO = {"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.34.1"}}}


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def cluster(fake: FakeApiServer) -> KubernetesCluster:
    return KubernetesCluster("gpu-7", "/kubeconfig", connect=lambda _: fake.api)


def test_our_labels_are_merged_into_the_node_and_none_removes_one(
    fake: FakeApiServer, cluster: KubernetesCluster
) -> None:
    cluster.patch_node({"a": "1", "b": None}, {"c": "2"})
    (request,) = fake.requests

    assert (request.method, request.path) == ("PATCH", "/api/v1/nodes/gpu-7")
    assert request.content_type == "application/merge-patch+json"
    assert request.body == {"metadata": {"labels": {"a": "1", "b": None}, "annotations": {"c": "2"}}}


def test_the_versions_are_those_that_the_kubelet_reported(fake: FakeApiServer, cluster: KubernetesCluster) -> None:
    fake.answers = [Reply(INFO)]

    assert cluster.read_node_info() == {"runtime": "containerd://2.1.0", "kubelet": "v1.34.1"}


@pytest.mark.parametrize(
    ("reply", "ask"),
    [
        pytest.param(Reply({"message": "no role"}, 403), lambda it: it.patch_node({}, {}), id="words refused"),
        pytest.param(Reply(b"{", missing=9), lambda it: it.patch_node({}, {}), id="an answer that breaks off"),
        pytest.param(Reply({"message": "down"}, 500), lambda it: it.read_node_info(), id="no Node"),
        pytest.param(Reply({"status": {}}), lambda it: it.read_node_info(), id="a Node without versions"),
        pytest.param(Reply({"status": 3}), lambda it: it.read_node_info(), id="a Node of a strange form"),
    ],
)
def test_a_failed_call_is_the_rooms_own_error(
    fake: FakeApiServer, cluster: KubernetesCluster, reply: Reply, ask: Callable[[Cluster], object]
) -> None:
    fake.answers = [reply]
    with pytest.raises(ClusterUnavailable, match="the API server"):
        ask(cluster)


def test_an_unknown_cluster_is_looked_for_at_each_call(fake: FakeApiServer) -> None:
    looks: list[str] = []

    def second_time(kubeconfig: str) -> ApiServer:
        looks.append(kubeconfig)
        if len(looks) == 1:
            raise NoCluster("there is none")
        return fake.api

    cluster = KubernetesCluster("gpu-7", "/kubeconfig", connect=second_time)
    with pytest.raises(ClusterUnavailable, match="there is none"):
        cluster.patch_node({}, {})
    cluster.patch_node({}, {})
    cluster.patch_node({}, {})

    assert looks == ["/kubeconfig"] * 2


def test_an_event_names_the_node(fake: FakeApiServer, cluster: KubernetesCluster) -> None:
    cluster.tell(NodeEvent("GpuRecovered", "GPU 1 gets new containers again.", is_warning=False))
    cluster._events.start()
    (request,) = fake.wait_for_requests(1)
    cluster.stop()

    assert request.path == "/api/v1/namespaces/default/events"
    assert request.body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "gpu-7", "uid": "gpu-7"}
    assert (request.body["type"], request.body["source"]["component"]) == ("Normal", "nvshare-device-plugin")

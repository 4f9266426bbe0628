"""pod-resources: the kubelet's answer as ours, and the path on which it is asked."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from deviceplugin.core.retention import Assignment
from deviceplugin.kubelet.pod_resources import PodResources
from deviceplugin.kubelet_api import podresources

OURS, OTHER = "nvshare.com/gpu", "nvidia.com/gpu"


def devices(resource: str, *ids: str) -> list[podresources.ContainerDevices]:
    """One entry an id, as the kubelet tells them."""
    return [podresources.ContainerDevices(resource_name=resource, device_ids=[device_id]) for device_id in ids]


LIST = podresources.ListPodResourcesResponse(
    pod_resources=[
        podresources.PodResources(
            name="p",
            namespace="n",
            containers=[
                podresources.ContainerResources(name="two", devices=devices(OURS, "b__0", "a__0")),
                podresources.ContainerResources(name="other", devices=devices(OTHER, "GPU-c::1", "MIG-d")),
                podresources.ContainerResources(name="none"),
            ],
        )
    ]
)
ALLOCATABLE = podresources.AllocatableResourcesResponse(
    devices=[*devices(OURS, "GPU-a__0"), *devices(OTHER, "GPU-a", "GPU-b::3"), *devices("nic", "eth0")]
)


@pytest.fixture
def kubelet(short_path: Path) -> Iterator[PodResources]:
    """A server under the kubelet's own path, answering the two lists."""
    answers = {"List": LIST, "GetAllocatableResources": ALLOCATABLE}
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            lambda _request, _context, name=name: answers[name],
            request_deserializer=podresources.ListPodResourcesRequest.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        for name in answers
    }
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
    server.add_insecure_port(f"unix:{short_path}/kubelet.sock")
    server.start()
    yield PodResources(short_path / "kubelet.sock", OURS)
    server.stop(None)


def test_who_has_which_slots(kubelet: PodResources) -> None:
    assert kubelet.list_pods().assignments == (Assignment("n", "p", "two", ("a__0", "b__0")),)


def test_which_gpus_another_plugin_gives_out(kubelet: PodResources) -> None:
    assert kubelet.foreign() == {"GPU-a": OTHER, "GPU-b": OTHER}


def test_which_gpus_containers_have_of_another_plugin(kubelet: PodResources) -> None:
    assert kubelet.list_pods().others == {"GPU-c": OTHER}


def test_a_kubelet_that_is_not_there_is_an_error_of_grpc(short_path: Path) -> None:
    with pytest.raises(grpc.RpcError):
        PodResources(short_path / "nobody.sock", OURS).list_pods()

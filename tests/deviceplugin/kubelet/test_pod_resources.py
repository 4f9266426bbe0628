"""The kubelet's list as this room's types: our slots, and other plugins' GPUs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.kubelet.generated.podresources_v1_pb2 import ContainerDevices
from adapters.kubelet.rpc import RpcError
from deviceplugin.core.retention import Assignment
from deviceplugin.kubelet.pod_resources import KubeletPods
from tests.fakes.pod_resources import FakePodResources, pod

OURS, OTHER = "nvshare.com/gpu", "nvidia.com/gpu"


def entries(resource: str, *ids: str) -> list[ContainerDevices]:
    """Return one entry an id, in the kubelet's form."""
    return [ContainerDevices(resource_name=resource, device_ids=[device_id]) for device_id in ids]


@pytest.fixture
def kubelet(short_path: Path) -> Iterator[KubeletPods]:
    """Serve the two lists under the kubelet's own path."""
    fake = FakePodResources(short_path / "kubelet.sock")
    fake.pods = [pod("n", "p", two={}, other={OTHER: ["GPU-c::1", "MIG-d"]}, none={})]
    fake.pods[0].containers[0].devices.extend(entries(OURS, "b__0", "a__0"))
    fake.allocatable = [
        *entries(OURS, "GPU-a__0"),
        *entries(OTHER, "GPU-a", "GPU-b::3"),
        *entries("nic", "eth0"),
    ]
    yield KubeletPods(fake.path, OURS)
    fake.stop()


def test_which_containers_have_which_slots(kubelet: KubeletPods) -> None:
    assert kubelet.list_pods().assignments == (Assignment("n", "p", "two", ("a__0", "b__0")),)


def test_which_gpus_another_plugin_offers(kubelet: KubeletPods) -> None:
    assert kubelet.foreign() == {"GPU-a": OTHER, "GPU-b": OTHER}


def test_which_gpus_containers_have_of_another_plugin(kubelet: KubeletPods) -> None:
    assert kubelet.list_pods().foreign == {"GPU-c": OTHER}


def test_a_kubelet_that_is_not_there_is_an_error_of_grpc(short_path: Path) -> None:
    with pytest.raises(RpcError):
        KubeletPods(short_path / "nobody.sock", OURS).list_pods()

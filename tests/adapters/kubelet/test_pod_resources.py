"""pod-resources: the client's answers are plain, also those of the largest nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.kubelet.generated import podresources_v1_pb2 as messages
from adapters.kubelet.pod_resources import ContainerDevices, Devices, PodResources
from adapters.kubelet.rpc import RpcError
from tests.fakes.pod_resources import FakePodResources, pod

GRPC_DEFAULT_BYTES = 4 << 20


@pytest.fixture
def fake(short_path: Path) -> Iterator[FakePodResources]:
    one = FakePodResources(short_path / "kubelet.sock")
    yield one
    one.stop()


@pytest.fixture
def client(fake: FakePodResources) -> PodResources:
    return PodResources(fake.path, seconds=10)


def test_each_container_is_listed_with_its_devices(fake: FakePodResources, client: PodResources) -> None:
    fake.pods = [pod("n", "p", one={"r": ["a", "b"]}, none={}), pod("n", "q", two={"r": ["c"], "s": ["d"]})]

    assert client.list_containers() == (
        ContainerDevices("n", "p", "one", (Devices("r", ("a", "b")),)),
        ContainerDevices("n", "p", "none"),
        ContainerDevices("n", "q", "two", (Devices("r", ("c",)), Devices("s", ("d",)))),
    )


def test_the_ids_of_one_resource_come_from_all_its_entries() -> None:
    container = ContainerDevices("n", "p", "c", (Devices("r", ("b",)), Devices("s", ("x",)), Devices("r", ("a",))))

    assert container.ids_of("r") == ("b", "a")


def test_the_devices_that_plugins_offer_are_listed(fake: FakePodResources, client: PodResources) -> None:
    fake.allocatable = [messages.ContainerDevices(resource_name="r", device_ids=["a"])]

    assert client.list_allocatable() == (Devices("r", ("a",)),)


def test_an_answer_beyond_grpcs_own_limit_is_read(fake: FakePodResources, client: PodResources) -> None:
    ids = [f"GPU-{number:040d}__0" for number in range(100_000)]
    fake.pods = [pod("n", "p", c={"r": ids})]
    fake.allocatable = [messages.ContainerDevices(resource_name="r", device_ids=ids)]
    assert fake.pods[0].ByteSize() > GRPC_DEFAULT_BYTES

    assert client.list_containers()[0].ids_of("r") == tuple(ids)
    assert client.list_allocatable()[0].ids == tuple(ids)


def test_a_kubelet_that_is_not_there_is_an_error(short_path: Path) -> None:
    with pytest.raises(RpcError):
        PodResources(short_path / "nobody.sock", seconds=5).list_containers()

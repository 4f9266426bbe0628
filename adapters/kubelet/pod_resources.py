"""The kubelet's pod-resources API (v1): which container has which devices, and which devices plugins give out.

Dials anew for each question: kubelets come and go under one path.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from adapters.kubelet.generated import podresources_v1_pb2 as messages
from adapters.kubelet.rpc import Answer, ask, dial

SERVICE = "v1.PodResourcesLister"
"""On the wire; the messages stand under a package of ours."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Device ids of one resource; the kubelet tells one entry an id."""

    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """A container and the devices it was given."""

    namespace: str
    pod: str
    container: str
    devices: tuple[Devices, ...] = ()

    def ids_of(self, resource: str) -> tuple[str, ...]:
        """Return all device ids of one resource, in the kubelet's order."""
        return tuple(device_id for entry in self.devices if entry.resource == resource for device_id in entry.ids)


class PodResources:
    """A client of one kubelet; its calls raise `rpc.RpcError`."""

    def __init__(self, socket: Path, *, seconds: float) -> None:
        self._socket, self._seconds = socket, seconds

    def list_containers(self) -> tuple[ContainerDevices, ...]:
        """Return every container that the kubelet knows, with its devices."""
        answer = self._ask("List", messages.ListPodResourcesRequest(), messages.ListPodResourcesResponse)
        return tuple(
            ContainerDevices(pod.namespace, pod.name, container.name, _devices(container.devices))
            for pod in answer.pod_resources
            for container in pod.containers
        )

    def list_allocatable(self) -> tuple[Devices, ...]:
        """Return the healthy devices that plugins give out on this node, whether in use or not."""
        request, kind = messages.AllocatableResourcesRequest(), messages.AllocatableResourcesResponse
        return _devices(self._ask("GetAllocatableResources", request, kind).devices)

    def _ask(
        self,
        method: str,
        request: messages.ListPodResourcesRequest | messages.AllocatableResourcesRequest,
        answer: type[Answer],
    ) -> Answer:
        with dial(self._socket) as channel:
            return ask(channel, f"/{SERVICE}/{method}", request, answer, seconds=self._seconds)


def _devices(entries: Iterable[messages.ContainerDevices]) -> tuple[Devices, ...]:
    return tuple(Devices(entry.resource_name, tuple(entry.device_ids)) for entry in entries)

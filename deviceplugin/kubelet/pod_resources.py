"""What pod-resources answers, as this room's types: the containers with our slots, and other plugins' GPUs.

The module owns the translation.  The client is `adapters.kubelet.pod_resources`.
"""

from collections.abc import Iterable
from pathlib import Path

from adapters.kubelet.pod_resources import ContainerDevices, Devices, PodResources
from deviceplugin.core.checkpoint import gpu_in
from deviceplugin.core.retention import Assignment, Listed

_SECONDS = 5.0


class KubeletPods:
    """The two questions of the device plugin; each raises `adapters.kubelet.rpc.RpcError`."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._client, self._resource = PodResources(socket, seconds=_SECONDS), resource

    def list_pods(self) -> Listed:
        """Return the containers with slots of ours, and the GPUs that containers have from other plugins."""
        containers = self._client.list_containers()
        return Listed(read_assignments(containers, self._resource), read_foreign(containers, self._resource))

    def foreign(self) -> dict[str, str]:
        """Return the GPUs that other plugins offer, each with its resource."""
        return _foreign_gpus(self._client.list_allocatable(), self._resource)


def read_assignments(containers: Iterable[ContainerDevices], resource: str) -> tuple[Assignment, ...]:
    """Return the containers with slots of the resource, sorted."""
    return tuple(
        sorted(
            Assignment(each.namespace, each.pod, each.container, tuple(sorted(ids)))
            for each in containers
            if (ids := each.ids_of(resource))
        )
    )


def read_foreign(containers: Iterable[ContainerDevices], resource: str) -> dict[str, str]:
    """Return the GPUs that containers have of other resources, even while the other plugin is away."""
    return _foreign_gpus((entry for each in containers for entry in each.devices), resource)


def _foreign_gpus(entries: Iterable[Devices], resource: str) -> dict[str, str]:
    return {
        uuid: entry.resource
        for entry in entries
        if entry.resource != resource
        for uuid in map(gpu_in, entry.ids)
        if uuid
    }

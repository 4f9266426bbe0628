"""The kubelet's pod-resources API: who has which slots, and what other plugins give out.

Owns the translation.  The services' path is `v1`, though the messages here stand under a name of ours.
May import `kubelet_api`, `checkpoint`, and `lifetime`'s types.
"""

from collections.abc import Iterable
from pathlib import Path

import grpc

from deviceplugin.core.checkpoint import gpu_in
from deviceplugin.core.retention import Assignment, Listed
from deviceplugin.kubelet_api import podresources
from deviceplugin.kubelet_api.rpc import ask, dial

_SERVICE = "/v1.PodResourcesLister"
_SECONDS = 5.0


class PodResources:
    """A client that dials anew for each question: kubelets come and go under one path."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._socket, self._resource = socket, resource

    def list_pods(self) -> Listed:
        """Who has slots of ours, and which GPUs containers have of other plugins; raises `grpc.RpcError`."""
        with self._dial() as channel:
            request = podresources.ListPodResourcesRequest()
            answer = ask(channel, f"{_SERVICE}/List", request, podresources.ListPodResourcesResponse, seconds=_SECONDS)
        return Listed(read_assignments(answer, self._resource), read_others(answer, self._resource))

    def foreign(self) -> dict[str, str]:
        """The GPUs that other resources give out, each with the resource's name; raises `grpc.RpcError`."""
        with self._dial() as channel:
            request = podresources.AllocatableResourcesRequest()
            kind = podresources.AllocatableResourcesResponse
            answer = ask(channel, f"{_SERVICE}/GetAllocatableResources", request, kind, seconds=_SECONDS)
        return read_foreign(answer, self._resource)

    def _dial(self) -> grpc.Channel:
        return dial(str(self._socket))


def read_assignments(answer: podresources.ListPodResourcesResponse, resource: str) -> tuple[Assignment, ...]:
    """The containers with slots of the resource; the kubelet tells one entry an id."""
    found = []
    for pod in answer.pod_resources:
        for container in pod.containers:
            entries = (entry for entry in container.devices if entry.resource_name == resource)
            ids = tuple(sorted(device_id for entry in entries for device_id in entry.device_ids))
            if ids:
                found.append(Assignment(pod.namespace, pod.name, container.name, ids))
    return tuple(sorted(found))


def read_others(answer: podresources.ListPodResourcesResponse, resource: str) -> dict[str, str]:
    """The GPUs that containers have of other resources: they have them still while the other plugin is away."""
    containers = (container for pod in answer.pod_resources for container in pod.containers)
    return _gpus_of_others((entry for container in containers for entry in container.devices), resource)


def read_foreign(answer: podresources.AllocatableResourcesResponse, resource: str) -> dict[str, str]:
    """The GPUs that other resources give out."""
    return _gpus_of_others(answer.devices, resource)


def _gpus_of_others(entries: Iterable[podresources.ContainerDevices], resource: str) -> dict[str, str]:
    return {
        uuid: entry.resource_name
        for entry in entries
        if entry.resource_name != resource
        for uuid in map(gpu_in, entry.device_ids)
        if uuid
    }

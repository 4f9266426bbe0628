"""The kubelet's pod-resources API: who has which slots, and what other plugins give out.

Owns the translation.  The services' path is `v1`, though the messages here stand under a name of ours.
May import `kubelet_api` and `lifetime`'s types.
"""

from pathlib import Path

import grpc

from deviceplugin.kubelet_api import podresources
from deviceplugin.kubelet_api.rpc import ask, dial
from deviceplugin.lifetime import Assignment

_SERVICE = "/v1.PodResourcesLister"
_SECONDS = 5.0


class PodResources:
    """A client that dials anew for each question: kubelets come and go under one path."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._socket, self._resource = socket, resource

    def assignments(self) -> tuple[Assignment, ...]:
        """Every container that has slots of ours; raises `grpc.RpcError`."""
        with self._dial() as channel:
            request = podresources.ListPodResourcesRequest()
            answer = ask(channel, f"{_SERVICE}/List", request, podresources.ListPodResourcesResponse, seconds=_SECONDS)
        return read_assignments(answer, self._resource)

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


def read_foreign(answer: podresources.AllocatableResourcesResponse, resource: str) -> dict[str, str]:
    """GPU UUIDs among the ids of other resources: NVIDIA's plugin names a GPU by its UUID, or `UUID::n`."""
    return {
        device_id.partition("::")[0]: entry.resource_name
        for entry in answer.devices
        if entry.resource_name != resource
        for device_id in entry.device_ids
        if device_id.startswith("GPU-")
    }

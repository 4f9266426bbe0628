"""The kubelet's pod-resources service on a socket; it answers what a test sets."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from adapters.kubelet.generated import podresources_v1_pb2 as messages
from adapters.kubelet.pod_resources import SERVICE


class FakePodResources:
    """Answers from the constructor to `stop`; counts the lists."""

    def __init__(self, path: Path) -> None:
        self.path, self.calls = path, 0
        self.pods: list[messages.PodResources] = []
        self.allocatable: list[messages.ContainerDevices] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        calls = {
            "List": (self._list, messages.ListPodResourcesRequest),
            "GetAllocatableResources": (self._allocatable, messages.AllocatableResourcesRequest),
        }
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                call,
                request_deserializer=kind.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, (call, kind) in calls.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def _list(self, _request: object, _context: object) -> messages.ListPodResourcesResponse:
        self.calls += 1
        return messages.ListPodResourcesResponse(pod_resources=self.pods)

    def _allocatable(self, _request: object, _context: object) -> messages.AllocatableResourcesResponse:
        return messages.AllocatableResourcesResponse(devices=self.allocatable)

    def stop(self) -> None:
        self._server.stop(None)


def pod(namespace: str, name: str, **containers: Mapping[str, Sequence[str]]) -> messages.PodResources:
    """Make a pod whose containers have the devices of each resource, one entry for each resource."""
    return messages.PodResources(
        name=name,
        namespace=namespace,
        containers=[
            messages.ContainerResources(
                name=container,
                devices=[
                    messages.ContainerDevices(resource_name=resource, device_ids=ids) for resource, ids in each.items()
                ],
            )
            for container, each in containers.items()
        ],
    )


def listing(*ids: str) -> list[messages.PodResources]:
    """Make a list of one pod whose container has these vGPUs."""
    return [pod("team", "train", main={"nvshare.com/gpu": ids})]

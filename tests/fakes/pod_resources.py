"""The kubelet's pod-resources over a real socket, for the observer."""

from concurrent import futures

import grpc

from schedulerd.kubelet_api.schedulerd_podresources_v1_pb2 import (
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)


def listing(*ids, resource="nvshare.com/gpu"):
    devices = ContainerDevices(resource_name=resource, device_ids=ids)
    return [
        PodResources(name="train", namespace="team", containers=[ContainerResources(name="main", devices=[devices])])
    ]


class FakeKubelet(grpc.GenericRpcHandler):
    """pod-resources over a real socket."""

    def __init__(self, path):
        self.calls, self.pods = 0, []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers((self,))
        self.server.add_insecure_port(f"unix://{path}")
        self.server.start()

    def service(self, details):
        if details.method != "/v1.PodResourcesLister/List":
            return None
        return grpc.unary_unary_rpc_method_handler(
            self._list, response_serializer=ListPodResourcesResponse.SerializeToString
        )

    def _list(self, _request, _context):
        self.calls += 1
        return ListPodResourcesResponse(pod_resources=self.pods)

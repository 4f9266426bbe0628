"""The API server as a node needs it: the Node's labels, its versions, and events about it.

The connection is made at the first call, since the import of the client takes longer than all else.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from adapters.errors import AdapterError
from adapters.kubernetes.client import MERGE_PATCH, ApiServer, Json, connect, path_of
from adapters.kubernetes.events import Event, EventSink, node
from deviceplugin.core.events import NodeEvent
from deviceplugin.errors import DevicePluginError

log = logging.getLogger(__name__)
_SECONDS = 5.0
COMPONENT = "nvshare-device-plugin"


class ClusterUnavailable(DevicePluginError):
    """The API server did not accept what we sent."""


class Cluster(Protocol):
    """The calls to the cluster that the plugin needs."""

    def patch_node(self, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None: ...

    def read_node_info(self) -> Mapping[str, str]:
        """Return the versions of kubelet and runtime, as the kubelet reported them."""

    def tell(self, node_event: NodeEvent) -> None:
        """Count an event; it is sent in the background."""

    def tell_events(self) -> None:
        """Send events until `stop`."""

    def stop(self) -> None: ...

    def dropped_events(self) -> int: ...


class KubernetesCluster:
    """The real cluster; every call raises `ClusterUnavailable` where it fails."""

    def __init__(self, node_name: str, kubeconfig: str, connect: Callable[[str], ApiServer] = connect) -> None:
        self._node, self._kubeconfig, self._connect = node_name, kubeconfig, connect
        self._api: ApiServer | None = None
        self._events = EventSink(self._connect_once, component=COMPONENT, host=node_name)

    def patch_node(self, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None:
        """Send a merge patch of our labels and annotations only; None removes one."""
        body = {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}}
        self._call("PATCH", body)

    def read_node_info(self) -> Mapping[str, str]:
        try:
            info = self._call("GET")["status"]["nodeInfo"]
            return {"runtime": info["containerRuntimeVersion"], "kubelet": info["kubeletVersion"]}
        except (LookupError, TypeError) as error:
            raise ClusterUnavailable(f"the API server does not tell the versions of the Node {self._node}") from error

    def tell(self, node_event: NodeEvent) -> None:
        self._events.tell(
            Event(node(self._node), node_event.reason, node_event.message, is_warning=node_event.is_warning)
        )

    def tell_events(self) -> None:
        self._events.run()

    def stop(self) -> None:
        self._events.stop()

    def dropped_events(self) -> int:
        return self._events.dropped

    def _call(self, method: str, body: Json | None = None) -> Json:
        try:
            path = path_of("/api/v1", "nodes", self._node)
            return self._connect_once().call(method, path, body, content_type=MERGE_PATCH, seconds=_SECONDS)
        except AdapterError as error:
            raise ClusterUnavailable(str(error)) from error

    def _connect_once(self) -> ApiServer:
        if self._api is None:
            self._api = self._connect(self._kubeconfig)
        return self._api

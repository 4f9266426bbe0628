"""The API server: this node's words and events.

Owns how they are sent, with the official client, imported only when needed: it takes longer to import than all else.
May import `errors` and `reports`' types only.
"""

import datetime
import logging
import secrets
from collections.abc import Mapping
from typing import Any, Protocol

from deviceplugin.errors import DevicePluginError
from deviceplugin.reporting.event_queue import Event

log = logging.getLogger(__name__)
_SECONDS = 5.0
COMPONENT = "nvshare-device-plugin"


class ClusterUnavailable(DevicePluginError):
    """The API server did not take what we sent."""


class Cluster(Protocol):
    """What the reports need."""

    def patch_node(self, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None: ...

    def post_event(self, event: Event) -> None: ...

    def read_node_info(self) -> Mapping[str, str]:
        """Versions of kubelet and runtime, as the kubelet told them."""


class KubernetesCluster:
    """The real one; every call raises `ClusterUnavailable` where it fails."""

    def __init__(self, node_name: str, kubeconfig: str) -> None:
        self._node, self._kubeconfig = node_name, kubeconfig
        self._api: Any = None

    def patch_node(self, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None:
        """A merge patch of our words only; None takes a word away."""
        body = {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}}
        self._call("patch_node", self._node, body)

    def post_event(self, event: Event) -> None:
        """An event of the Node: in `default`, with the node's name as uid, which is how the kubelet's own are found."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        body = {
            "metadata": {"name": f"{self._node}.{secrets.token_hex(8)}", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": self._node, "uid": self._node, "apiVersion": "v1"},
            "reason": event.reason,
            "message": event.message[:1024],
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": COMPONENT, "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": event.times,
        }
        self._call("create_namespaced_event", "default", body)

    def read_node_info(self) -> Mapping[str, str]:
        info = self._call("read_node", self._node).status.node_info
        return {"runtime": info.container_runtime_version, "kubelet": info.kubelet_version}

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._client(), name)(*arguments, _request_timeout=_SECONDS)
        except Exception as error:  # the client raises its own, urllib3's and the configuration's
            raise ClusterUnavailable(f"the API server did not take {name}: {_first_line(error)}") from error

    def _client(self) -> Any:
        if self._api is None:
            untyped = load_client()
            configuration = untyped.client.Configuration()
            if self._kubeconfig:
                untyped.config.load_kube_config(self._kubeconfig, client_configuration=configuration)
            else:
                untyped.config.load_incluster_config(client_configuration=configuration)
            configuration.retries = False
            self._api = untyped.client.CoreV1Api(untyped.client.ApiClient(configuration))
        return self._api


def load_client() -> Any:
    """The official client, which ships no types."""
    import kubernetes

    return kubernetes


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]

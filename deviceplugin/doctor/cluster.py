"""Gather what the API server says of this node: versions, our slots, and the runtime classes."""

from dataclasses import dataclass
from typing import Any

from adapters.errors import AdapterError, ApiError
from adapters.kubernetes.client import ApiServer, Json, connect, path_of
from contract.words import names
from deviceplugin.core.doctor.facts import ClusterFacts
from deviceplugin.node.cdi_support import takes_cdi

_SECONDS = 5.0
_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the API server says, and the versions that the runtime's facts need."""

    facts: ClusterFacts
    runtime: str = ""
    """As `containerd://2.1.4`."""
    takes_cdi: bool = False


def ask_cluster(node_name: str, kubeconfig: str) -> NodeAnswer:
    """Ask for the Node and the runtime classes; a fault is a fact too."""
    if not node_name:
        return NodeAnswer(ClusterFacts(trouble="no --node-name is given."))
    try:
        server = connect(kubeconfig)
        node = server.call("GET", path_of("/api/v1", "nodes", node_name), seconds=_SECONDS)
    except AdapterError as error:
        return NodeAnswer(ClusterFacts(trouble=f"{error}."))
    return _read(node, _list_classes(server))


def _list_classes(server: ApiServer) -> dict[str, str] | None:
    try:
        items = server.call("GET", _CLASSES, seconds=_SECONDS).get("items")
    except ApiError:
        return None
    found = items if isinstance(items, list) else []
    return {str(item["metadata"]["name"]): str(item.get("handler", "")) for item in found}


def _read(node: Json, classes: dict[str, str] | None) -> NodeAnswer:
    status: Any = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    runtime, kubelet = str(info.get("containerRuntimeVersion", "")), str(info.get("kubeletVersion", ""))
    slots = str((status.get("allocatable") or {}).get(names.RESOURCE, "0"))
    facts = ClusterFacts(kubelet=kubelet, slots=int(slots) if slots.isdigit() else 0, runtime_classes=classes)
    return NodeAnswer(facts, runtime, takes_cdi({"runtime": runtime, "kubelet": kubelet}))

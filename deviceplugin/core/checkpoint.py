"""The kubelet's own book of allocations: `kubelet_internal_checkpoint`, read and never written.

Owns how it is read: it is the only place that knows of init containers, of which pod-resources says nothing.  Its form
is the kubelet's private matter, hence anything odd means "not known".  Pure.
"""

import json
from typing import Any

FILE_NAME = "kubelet_internal_checkpoint"
IdSet = frozenset[str]


def parse_checkpoint(text: str, resource: str) -> frozenset[IdSet] | None:
    """The ids of each container that has any of the resource; None where the text is not as we know it."""
    try:
        entries = json.loads(text)["Data"]["PodDeviceEntries"]
        return frozenset(_ids(entry) for entry in entries or () if entry["ResourceName"] == resource)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def parse_foreign(text: str, resource: str) -> dict[str, str]:
    """GPUs that other plugins had when it was written, given out or in a pod's hands, each with its resource."""
    try:
        book = json.loads(text)["Data"]
        pairs = [(entry["ResourceName"], _ids(entry)) for entry in book["PodDeviceEntries"] or ()]
        pairs += (book.get("RegisteredDevices") or {}).items()
        return {gpu: name for name, ids in pairs if name != resource for gpu in map(gpu_in, ids or ()) if gpu}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def gpu_in(device_id: str) -> str:
    """The GPU that an id of another plugin's means, or nothing: NVIDIA's names a GPU by its UUID, or `UUID::n`."""
    return device_id.partition("::")[0] if device_id.startswith("GPU-") else ""


def _ids(entry: dict[str, Any]) -> IdSet:
    """The ids stand by NUMA node."""
    return frozenset(str(device_id) for ids in entry["DeviceIDs"].values() for device_id in ids)

"""Parse `kubelet_internal_checkpoint`, the kubelet's own record of allocations.  We read it and never write it.

The module owns how it is read.  Only this file knows the slots of init containers; pod-resources does not list them.
Its format is private to the kubelet, so anything unexpected means "not known".  Pure.
"""

import json
from typing import Any

FILE_NAME = "kubelet_internal_checkpoint"
IdSet = frozenset[str]


def parse_checkpoint(text: str, resource: str) -> frozenset[IdSet] | None:
    """Return the device ids of each container that has any of the resource; None for an unknown format."""
    try:
        entries = json.loads(text)["Data"]["PodDeviceEntries"]
        return frozenset(_ids(entry) for entry in entries or () if entry["ResourceName"] == resource)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def parse_foreign(text: str, resource: str) -> dict[str, str]:
    """Return the GPUs that other plugins offered, or that a pod had from them, each with its resource."""
    try:
        book = json.loads(text)["Data"]
        pairs = [(entry["ResourceName"], _ids(entry)) for entry in book["PodDeviceEntries"] or ()]
        pairs += (book.get("RegisteredDevices") or {}).items()
        return {gpu: name for name, ids in pairs if name != resource for gpu in map(gpu_in, ids or ()) if gpu}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def gpu_in(device_id: str) -> str:
    """Return the GPU behind another plugin's device id, or an empty text.

    NVIDIA's plugin names a GPU by its UUID, or `UUID::n`.
    """
    return device_id.partition("::")[0] if device_id.startswith("GPU-") else ""


def _ids(entry: dict[str, Any]) -> IdSet:
    """Return the ids of all NUMA nodes together."""
    return frozenset(str(device_id) for ids in entry["DeviceIDs"].values() for device_id in ids)

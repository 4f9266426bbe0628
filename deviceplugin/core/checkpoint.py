"""Parse `kubelet_internal_checkpoint`, the kubelet's own record of allocations.  We read it and never write it.

The module owns how it is read.  Only this file knows the slots of init containers; pod-resources does not list them.
Its format is private to the kubelet, so anything unexpected means "not known".  Pure.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FILE_NAME = "kubelet_internal_checkpoint"
IdSet = frozenset[str]


@dataclass(frozen=True, slots=True)
class Owner:
    """The pod that has a set of slots, by the kubelet's own record.

    The pod is exact.  The containers are not: an init container lends its slots to those after it, and each of them
    is listed.
    """

    pod: str
    """Its UID; of a static pod the configuration's hash, as its copy in the API says in `CONFIG_MIRROR`."""
    containers: tuple[str, ...]
    answers: tuple[bytes, ...]
    """Our own answers to Allocate, as the kubelet has kept them: one for each container."""


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


def find_owner(text: str, resource: str, device_ids: Sequence[str]) -> Owner | None:
    """Return the pod that has exactly these slots; None where the record cannot be read or names none or several."""
    try:
        entries = [
            entry
            for entry in json.loads(text)["Data"]["PodDeviceEntries"] or ()
            if entry["ResourceName"] == resource and _ids(entry) == frozenset(device_ids)
        ]
        pods = {str(entry["PodUID"]) for entry in entries}
        if len(pods) != 1:
            return None
        answers = tuple(base64.b64decode(entry.get("AllocResp") or "") for entry in entries)
        return Owner(pods.pop(), tuple(str(entry["ContainerName"]) for entry in entries), answers)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _ids(entry: dict[str, Any]) -> IdSet:
    """Return the ids of all NUMA nodes together."""
    return frozenset(str(device_id) for ids in entry["DeviceIDs"].values() for device_id in ids)

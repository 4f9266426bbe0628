"""The kubelet's own book of allocations: `kubelet_internal_checkpoint`, read and never written.

Owns how it is read: it is the only place that knows of init containers, of which pod-resources says nothing.  Its form
is the kubelet's private matter, hence anything odd means "not known".  Pure.  May import nothing of ours.
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


def _ids(entry: dict[str, Any]) -> IdSet:
    """The ids stand by NUMA node."""
    return frozenset(str(device_id) for ids in entry["DeviceIDs"].values() for device_id in ids)

"""The labels and annotation of a Node object that describe its GPUs: their keys and values.

The device plugin writes them.  The webhook's node affinity, schedulers and people read them.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum

COUNT = "nvshare.com/gpu.count"
"""Label: how many healthy GPUs this node shares."""
MODEL = "nvshare.com/gpu.model"
MEMORY = "nvshare.com/gpu.memory"
"""Label: the smallest card's memory, in MiB."""
COMPUTE = "nvshare.com/gpu.compute"
"""Label: the smallest card's compute capability, such as `8.9`."""
DEVICES = "nvshare.com/gpu.devices"
"""Label: where containers' device nodes and driver files come from; a value of `DevicesFrom`."""
FREE_SLOTS = "nvshare.com/gpu.free-slots"
"""Annotation: free slots by GPU."""


class DevicesFrom(StrEnum):
    """Where the device nodes and driver files of a container's GPUs come from."""

    NVIDIA_CDI = "nvidia-cdi"
    """Copied from the CDI spec of the container toolkit or of NVIDIA's device plugin."""
    MANAGEMENT_CDI = "management-cdi"
    """Copied from the GPU Operator's management spec, cut down to the card."""
    ENVIRONMENT = "environment"
    """NVIDIA's runtime brings them: it reads NVIDIA_VISIBLE_DEVICES."""
    REFUSED = "refused"
    """From nowhere: the node's specs cannot be used, and pods wait."""


_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_LABEL = 63


def label_value(text: str) -> str:
    """Return the text in a form that a label allows; the text is mostly a GPU's model."""
    return _NOT_IN_LABELS.sub("-", text)[:_LONGEST_LABEL].strip("-_.")


def write_free_slots(free: Mapping[str, int]) -> str:
    """Return the annotation's value: a JSON map from UUID to free slots, in the order of the UUIDs."""
    return json.dumps(dict(sorted(free.items())), separators=(",", ":"))

"""The labels and the annotation that describe this node's GPUs on its Node object.

The module owns their values, and one rule.  When a container was refused because too few GPUs had room, `gpu.count`
says how many GPUs have room, until enough of them do.  The webhook's affinity compares that label with the number of
vGPUs that a pod asks for.  So the next pod waits in the scheduler instead of failing here.  Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from contract.sharing.inventory import Gpu
from contract.words import node
from contract.words.node import DevicesFrom
from deviceplugin.core.device_list import DeviceList

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """The labels and annotations that the Node should have."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def describe_node(
    device_list: DeviceList,
    free: Mapping[str, int],
    *,
    refused_size: int = 0,
    devices: DevicesFrom | None = None,
) -> NodeLabels:
    """Return the labels for what is shared now.

    `refused_size` is the size of a refused container, or 0.  `devices` says where containers' device nodes come from.
    """
    gpus = [shared.gpu for shared in device_list.inventory.shared]
    healthy = [gpu for gpu in gpus if gpu.uuid not in device_list.unhealthy]
    with_room = sum(1 for gpu in healthy if free.get(gpu.uuid, 0) > 0)
    count = with_room if with_room < refused_size else len(healthy)
    return NodeLabels(
        labels={node.COUNT: str(count), **_describe(gpus), **({node.DEVICES: devices.value} if devices else {})},
        annotations={node.FREE_SLOTS: node.write_free_slots(free)},
    )


def _describe(gpus: list[Gpu]) -> dict[str, str]:
    """Describe several kinds of GPU by the smallest one, so that a pod that selects by a label fits every GPU here."""
    if not gpus:
        return {}
    models = {gpu.model for gpu in gpus}
    computes = [gpu.compute for gpu in gpus if gpu.compute]
    words = {node.MODEL: node.label_value(models.pop() if len(models) == 1 else "mixed")}
    memories = [gpu.memory_bytes for gpu in gpus if gpu.memory_bytes]
    if memories:
        words[node.MEMORY] = str(min(memories) // _MEBIBYTE)
    if computes:
        words[node.COMPUTE] = min(computes, key=lambda text: [int(part) for part in text.split(".")])
    return words


def enough_room(device_list: DeviceList, free: Mapping[str, int], size: int) -> bool:
    """Return whether at least `size` healthy GPUs have a free slot."""
    return sum(1 for uuid, slots in free.items() if slots > 0 and uuid not in device_list.unhealthy) >= size

"""What an allocation is: its key, its record on the node, and what the kubelet is answered.

Owns the checks of `Allocate` and the texts of `allocation.json`; pure, the clock is an argument.
May import `contract`, the inventory and the room's errors only.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from contract.device_id import Slot
from contract.reasons import Refusal
from deviceplugin.core.inventory import Inventory
from deviceplugin.errors import NOTHING_ASKED, SAME_GPU, TOO_MANY, UNKNOWN_DEVICE, Refused


@dataclass(frozen=True, slots=True)
class Allocation:
    """The slots of one container."""

    key: str
    device_ids: tuple[str, ...]
    uuids: tuple[str, ...]
    created: float
    """Seconds since the epoch; new each time the kubelet allocates these slots."""


def key_of(device_ids: Sequence[str]) -> str:
    """The folder's name: the same for the same slots, in whatever order.

    The kubelet says which slots PreStartContainer is about and nothing else, so a key that follows from the slots is
    one that can be made anew when its folder was lost.  A slot belongs to one container at a time, so two live
    allocations never share a key; `created` tells one life of a key from the next.
    """
    return hashlib.sha256("\n".join(sorted(device_ids)).encode()).hexdigest()[:16]


def allocate(device_ids: Sequence[str], inventory: Inventory, *, most: int, now: float) -> Allocation:
    """The allocation of these slots; raises `Refused` where a container may not have them."""
    slots = [_known(device_id, inventory) for device_id in device_ids]
    if not slots:
        raise Refused(Refusal(NOTHING_ASKED, "The kubelet asked for no device at all.", "Report this to its makers."))
    if 0 < most < len(slots):
        raise Refused(_too_many(len(slots), most))
    uuids = tuple(sorted({slot.uuid for slot in slots}))
    if len(uuids) < len(slots):
        raise Refused(_same_gpu(slots))
    return Allocation(key_of(device_ids), tuple(sorted(device_ids)), uuids, now)


def _known(device_id: str, inventory: Inventory) -> Slot:
    slot = inventory.slot_of.get(device_id)
    if slot is None:
        raise Refused(
            Refusal(
                UNKNOWN_DEVICE,
                f"{device_id[:80]!r} is not a slot of a GPU that is shared on this node.",
                "Its GPU was taken away or excluded since; make the pod again.",
            )
        )
    return slot


def _too_many(asked: int, most: int) -> Refusal:
    return Refusal(
        TOO_MANY,
        f"A container asks for {asked} vGPUs where at most {most} are allowed on this node.",
        f"Ask for {most} at most, or raise --max-per-container.",
    )


def _same_gpu(slots: Sequence[Slot]) -> Refusal:
    uuids = [slot.uuid for slot in slots]
    return Refusal(
        SAME_GPU,
        f"A container asks for {len(uuids)} vGPUs, which must lie on {len(uuids)} different GPUs, and only"
        f" {len(set(uuids))} of this node's GPUs have room.",
        "Wait until a slot of another GPU is free, use a node with room on more GPUs, or ask for fewer vGPUs.",
    )


def render(allocation: Allocation) -> str:
    """The text of `allocation.json`."""
    record = {
        "key": allocation.key,
        "uuids": list(allocation.uuids),
        "device_ids": list(allocation.device_ids),
        "created": allocation.created,
    }
    return json.dumps(record) + "\n"


def parse(text: str) -> Allocation | None:
    """The allocation that the text tells of; None where it is not whole, as after a power cut."""
    try:
        record = json.loads(text)
        allocation = Allocation(
            str(record["key"]),
            tuple(map(str, record["device_ids"])),
            tuple(map(str, record["uuids"])),
            float(record["created"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
    return allocation if allocation.device_ids and allocation.key == key_of(allocation.device_ids) else None

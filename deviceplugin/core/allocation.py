"""Decide whether a container may have the slots that the kubelet names; refuse with a sentence otherwise.

Pure: the clock is an argument.  `contract/allocation.py` says what an allocation is.
"""

from collections.abc import Sequence

from contract.allocation import Allocation, key_of
from contract.sharing.inventory import Inventory
from contract.words.device_id import Slot
from contract.words.reasons import Refusal
from deviceplugin.errors import NOTHING_ASKED, SAME_GPU, TOO_MANY, UNKNOWN_DEVICE, Refused


def allocate(device_ids: Sequence[str], inventory: Inventory, *, most: int, now: float) -> Allocation:
    """Return the allocation of these slots; raise `Refused` where a container may not have them."""
    slots = [_known(device_id, inventory) for device_id in device_ids]
    if not slots:
        raise Refused(
            Refusal(
                NOTHING_ASKED, "The kubelet asked for no device at all.", "Report this to the makers of Kubernetes."
            )
        )
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
                "Its GPU was removed or excluded. Delete the pod and create it again.",
            )
        )
    return slot


def _too_many(asked: int, most: int) -> Refusal:
    return Refusal(
        TOO_MANY,
        f"A container asks for {asked} vGPUs but at most {most} are allowed on this node.",
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

"""What each XID of NVIDIA's driver means for a GPU that many containers share: one table.

The module owns the choice.  A fault of one application is ignored, since the next container has nothing to do with it.
Every other XID, and every number that is not listed, makes the GPU unhealthy for a time.

Source: NVIDIA's list of XIDs and its recommended actions (docs.nvidia.com/deploy/xid-errors).
"""

from enum import Enum


class Meaning(Enum):
    """What an XID says about the card."""

    APPLICATION = "an application's own fault"
    NOTE = "for the record only"
    CRITICAL = "the card is in trouble"


XIDS: dict[int, tuple[Meaning, str]] = {
    13: (Meaning.APPLICATION, "graphics engine exception: an illegal instruction or access of a kernel"),
    31: (Meaning.APPLICATION, "memory page fault of a kernel"),
    43: (Meaning.APPLICATION, "a channel stopped after its application's fault"),
    45: (Meaning.APPLICATION, "preemptive cleanup after an application ended"),
    48: (Meaning.CRITICAL, "double-bit memory error"),
    61: (Meaning.CRITICAL, "microcontroller breakpoint"),
    62: (Meaning.CRITICAL, "microcontroller halt"),
    63: (Meaning.NOTE, "a memory row was remapped, or will be at the next reset"),
    64: (Meaning.CRITICAL, "a memory row could not be remapped"),
    68: (Meaning.APPLICATION, "video decoder exception"),
    69: (Meaning.CRITICAL, "graphics engine class error"),
    74: (Meaning.CRITICAL, "NVLink error"),
    79: (Meaning.CRITICAL, "the GPU has fallen off the bus"),
    92: (Meaning.NOTE, "many single-bit memory errors, all corrected"),
    94: (Meaning.APPLICATION, "contained memory error: only the application that touched it is ended"),
    95: (Meaning.CRITICAL, "uncontained memory error"),
    109: (Meaning.CRITICAL, "context switch timed out: the card wants a reset"),
    119: (Meaning.CRITICAL, "the GPU's system processor does not answer"),
    120: (Meaning.CRITICAL, "fault in the GPU's system processor"),
    140: (Meaning.CRITICAL, "memory error that was not recovered"),
}


def meaning_of(number: int) -> tuple[Meaning, str]:
    """Return what the XID means; a number that is not in the table is critical."""
    return XIDS.get(number, (Meaning.CRITICAL, "an XID that is not in our table, so it counts as critical"))

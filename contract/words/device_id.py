"""The device id that the kubelet knows: `<GPU-UUID>__<ordinal>`.

It is unique on a node and has at most 63 characters.  It never equals an id of NVIDIA's plugin (a bare UUID, or
`UUID::n`).
"""

import re
from dataclasses import dataclass

from contract.errors import BadDeviceId
from contract.words.gpu_uuid import is_gpu_uuid

SEPARATOR = "__"
LONGEST = 63
_ORDINAL = re.compile(r"0|[1-9][0-9]*")


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One vGPU: a place on one physical GPU."""

    uuid: str
    ordinal: int

    def __str__(self) -> str:
        return encode(self)


def encode(slot: Slot) -> str:
    """Return the slot's device id; raise BadDeviceId where `decode` would not read it back."""
    text = f"{slot.uuid}{SEPARATOR}{slot.ordinal}"
    decode(text)
    return text


def decode(text: str) -> Slot:
    """Return the slot that a device id names; raise BadDeviceId."""
    uuid, separator, ordinal = text.rpartition(SEPARATOR)
    if not separator:
        raise BadDeviceId(f"{text!r} is not a device id: it must be <GPU-UUID>__<ordinal>, as in GPU-1b2c__0")
    if len(text) > LONGEST:
        raise BadDeviceId(f"device id {text!r} has {len(text)} characters, more than {LONGEST}")
    if not is_gpu_uuid(uuid):
        raise BadDeviceId(f"{uuid!r} in device id {text!r} is not a GPU's UUID: it must look like GPU-1b2c-…")
    if not _ORDINAL.fullmatch(ordinal):
        raise BadDeviceId(
            f"{ordinal!r} in device id {text!r} is not an ordinal: it must be 0, 1, 2, … without zeros in front"
        )
    return Slot(uuid, int(ordinal))

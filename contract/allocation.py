"""An allocation: the slots of one container, and the text of its `allocation.json` on the node.

The device plugin writes the file.  The scheduler reads it to know which container is behind a socket.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from contract.errors import BadAllocation


@dataclass(frozen=True, slots=True)
class Allocation:
    """The slots of one container."""

    key: str
    device_ids: tuple[str, ...]
    uuids: tuple[str, ...]
    created: float
    """Seconds since the epoch; new each time the kubelet allocates these slots."""
    names: tuple[str, ...] = ()
    """The CDI devices that the kubelet was told for these slots in this life: one for each container that shares them.
    Empty where the node takes no CDI devices."""
    binding: int = 0
    """How often the slots were bound to devices in this life; 0 before the first container starts."""
    pod: str = ""
    """The pod's UID as the kubelet has it, from the first start on; of a static pod it is the configuration's hash."""

    @property
    def container(self) -> str:
        """Return a name that no other container ever has: the same slots given again are another container's."""
        return f"{self.key}.{round(self.created * 1000)}"

    @property
    def has_its_own_key(self) -> bool:
        """Return whether the key follows from the slots, as in every allocation of the device plugin."""
        return bool(self.device_ids) and self.key == key_of(self.device_ids)


def key_of(device_ids: Sequence[str]) -> str:
    """Return the folder's name: the same for the same slots, in any order.

    PreStartContainer tells us the slots and nothing else.  Because the key follows from the slots, a lost folder can be
    made again.  A slot belongs to one container at a time, so two live allocations never share a key.  `created`
    distinguishes one use of a key from the next.
    """
    return hashlib.sha256("\n".join(sorted(device_ids)).encode()).hexdigest()[:16]


def render(allocation: Allocation) -> str:
    """Return the text of `allocation.json`."""
    record = {
        "key": allocation.key,
        "uuids": list(allocation.uuids),
        "device_ids": list(allocation.device_ids),
        "created": allocation.created,
        "names": list(allocation.names),
        "binding": allocation.binding,
        "pod": allocation.pod,
    }
    return json.dumps(record) + "\n"


def parse(text: str) -> Allocation:
    """Read the allocation from the text; raise BadAllocation where it is incomplete, as after a power cut.

    A record without names is of a plugin that told the kubelet the key itself and bound the slots at once.
    """
    try:
        record = json.loads(text)
        key = str(record["key"])
        return Allocation(
            key=key,
            device_ids=tuple(map(str, record["device_ids"])),
            uuids=tuple(map(str, dict.fromkeys(record["uuids"]))),
            created=float(record["created"]),
            names=tuple(map(str, record.get("names", [key]))),
            binding=int(record.get("binding", 1)),
            pod=str(record.get("pod", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAllocation(f"this is no allocation: {type(error).__name__}: {error}") from None

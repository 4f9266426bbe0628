"""The GPUs that a node shares, and the slots of each, as values that placement and reports read.

The device plugin owns the rule of what is shared (`deviceplugin/core/inventory.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contract.words.device_id import Slot
from contract.words.reasons import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU as NVML describes it; None where NVML does not know."""

    uuid: str
    model: str
    memory_bytes: int = 0
    compute: str = ""
    """Compute capability, as `9.0`."""
    pci: str = ""
    numa: int | None = None
    minor: int | None = None
    """The card's number in /dev/nvidia<n>."""
    mig: bool = False
    """MIG mode is on: the card is cut into instances.  Such a card is refused."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A GPU that is shared, and its number of slots."""

    gpu: Gpu
    slots: int

    def ids(self) -> tuple[str, ...]:
        """Return the device ids of all its slots."""
        return tuple(str(Slot(self.gpu.uuid, ordinal)) for ordinal in range(self.slots))


@dataclass(frozen=True, slots=True)
class Inventory:
    """The shared GPUs in the order of their UUIDs, and a refusal for each of the others."""

    shared: tuple[Shared, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    slot_of: Mapping[str, Slot] = field(init=False, compare=False)
    """Every device id and its slot.  It is looked up, because decoding 1600 ids takes longer than a call may take."""
    slots_on: Mapping[str, int] = field(init=False, compare=False)
    numa_of: Mapping[str, int | None] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        slots = {str(slot): slot for each in self.shared for slot in _slots(each)}
        object.__setattr__(self, "slot_of", MappingProxyType(slots))
        object.__setattr__(self, "slots_on", {each.gpu.uuid: each.slots for each in self.shared})
        object.__setattr__(self, "numa_of", {each.gpu.uuid: each.gpu.numa for each in self.shared})


def _slots(shared: Shared) -> Iterable[Slot]:
    return (Slot(shared.gpu.uuid, ordinal) for ordinal in range(shared.slots))

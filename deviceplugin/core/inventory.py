"""Which GPUs of this node are shared, with how many slots, and why the others are not.

Owns the rule of what is shared: pure, from what NVML found and what the operator said.  A GPU that is not shared is
refused with a sentence.  May import `contract` and the room's errors only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contract.device_id import Slot, encode
from contract.errors import BadDeviceId
from contract.reasons import ReasonCode, Refusal


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
    mig: bool = False
    """MIG mode is on: the card is cut into instances that are not ours to share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator said about sharing."""

    slots: int
    slots_for: Mapping[str, int] = field(default_factory=dict)
    """Slots for a UUID or a model, which go before the general number; a UUID before a model."""
    exclude: frozenset[str] = frozenset()
    """UUIDs or models that are not shared."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A GPU that is shared, and its number of slots."""

    gpu: Gpu
    slots: int

    def ids(self) -> tuple[str, ...]:
        """The device ids of all its slots."""
        return tuple(str(Slot(self.gpu.uuid, ordinal)) for ordinal in range(self.slots))


@dataclass(frozen=True, slots=True)
class Inventory:
    """The shared GPUs in the order of their UUIDs, and a refusal for each of the others."""

    shared: tuple[Shared, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    slot_of: Mapping[str, Slot] = field(init=False, compare=False)
    """Every device id: looked up, since decoding 1600 ids a call would take longer than the call may."""
    slots_on: Mapping[str, int] = field(init=False, compare=False)
    numa_of: Mapping[str, int | None] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        slots = {str(slot): slot for each in self.shared for slot in _slots(each)}
        object.__setattr__(self, "slot_of", MappingProxyType(slots))
        object.__setattr__(self, "slots_on", {each.gpu.uuid: each.slots for each in self.shared})
        object.__setattr__(self, "numa_of", {each.gpu.uuid: each.gpu.numa for each in self.shared})


def _slots(shared: Shared) -> Iterable[Slot]:
    return (Slot(shared.gpu.uuid, ordinal) for ordinal in range(shared.slots))


def take_stock(found: Iterable[Gpu], rules: Rules, foreign: Mapping[str, str] | None = None) -> Inventory:
    """The inventory of what NVML found; `foreign` names the resource under which another plugin serves a GPU."""
    shared: list[Shared] = []
    refused: dict[str, Refusal] = {}
    for gpu in sorted(found, key=lambda gpu: gpu.uuid):
        refusal = _refuse(gpu, rules, foreign or {})
        if refusal is None:
            shared.append(Shared(gpu, slots_of(gpu, rules)))
        else:
            refused[gpu.uuid] = refusal
    return Inventory(tuple(shared), refused)


def slots_of(gpu: Gpu, rules: Rules) -> int:
    """How many slots the GPU has: its own number, its model's, or everybody's."""
    return rules.slots_for.get(gpu.uuid, rules.slots_for.get(gpu.model, rules.slots))


def _refuse(gpu: Gpu, rules: Rules, foreign: Mapping[str, str]) -> Refusal | None:
    if gpu.uuid in rules.exclude or gpu.model in rules.exclude:
        return Refusal(
            ReasonCode("Excluded"),
            f"GPU {gpu.uuid} ({gpu.model}) is excluded by --exclude.",
            "Take it off the list to share it.",
        )
    try:
        encode(Slot(gpu.uuid, slots_of(gpu, rules) - 1))
    except BadDeviceId as error:
        return Refusal(ReasonCode("OddUuid"), f"GPU {gpu.uuid!r} cannot be named: {error}.", "Report this to us.")
    if gpu.mig:
        return Refusal(
            ReasonCode("MigEnabled"),
            f"GPU {gpu.uuid} ({gpu.model}) is in MIG mode: its instances are not shared by accident.",
            f"Switch MIG off (nvidia-smi -i {gpu.uuid} -mig 0) to share the card, or leave it to NVIDIA's plugin.",
        )
    if gpu.uuid in foreign:
        return Refusal(
            ReasonCode("ServedByAnother"),
            f"GPU {gpu.uuid} ({gpu.model}) is given out as {foreign[gpu.uuid]} by another device plugin on this node.",
            "Take it out of that plugin, or exclude it here with --exclude: two plugins would give it out twice.",
        )
    return None

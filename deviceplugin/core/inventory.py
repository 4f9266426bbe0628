"""Decide which GPUs of this node are shared, with how many slots, and why the others are not.

Pure: from what NVML found and what the operator said.  A GPU that is not shared is refused with a sentence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contract.device_id import Slot, encode
from contract.errors import BadDeviceId
from contract.reasons import ReasonCode, Refusal
from contract.sharing.inventory import Gpu, Inventory, Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator said about sharing."""

    slots: int
    slots_for: Mapping[str, int] = field(default_factory=dict)
    """Slots for a UUID or a model, which go before the general number; a UUID before a model."""
    exclude: frozenset[str] = frozenset()
    """UUIDs or models that are not shared."""


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

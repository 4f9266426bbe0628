"""Decide which GPUs of this node are shared, with how many slots, and why the others are not.

Pure: the input is what NVML found and what the operator set.  A GPU that is not shared is refused with a sentence.

MIG is refused.  A card in MIG mode is not shared, and neither are its instances: only whole cards get slots.  An
operator who cuts a card into instances wants them apart from each other, and usually offers them through NVIDIA's
plugin; sharing them by accident would undo both.  The operator switches MIG off, or leaves the card to NVIDIA's plugin.
Everywhere else a name `MIG-…` is only read, because NVML and other plugins name instances
(`contract/words/gpu_uuid.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contract.errors import BadDeviceId
from contract.sharing.inventory import Gpu, Inventory, Shared
from contract.words.device_id import Slot, encode
from contract.words.reasons import ReasonCode, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The operator's settings about sharing."""

    slots: int
    slots_for: Mapping[str, int] = field(default_factory=dict)
    """Slots for a UUID or a model, which win over the general number; a UUID wins over a model."""
    exclude: frozenset[str] = frozenset()
    """UUIDs or models that are not shared."""


def take_stock(found: Iterable[Gpu], rules: Rules, foreign: Mapping[str, str] | None = None) -> Inventory:
    """Return the inventory of what NVML found; `foreign` names the resource of a GPU that another plugin serves."""
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
    """Return how many slots the GPU has: its own number, its model's number, or the general number."""
    return rules.slots_for.get(gpu.uuid, rules.slots_for.get(gpu.model, rules.slots))


def _refuse(gpu: Gpu, rules: Rules, foreign: Mapping[str, str]) -> Refusal | None:
    if gpu.uuid in rules.exclude or gpu.model in rules.exclude:
        return Refusal(
            ReasonCode("Excluded"),
            f"GPU {gpu.uuid} ({gpu.model}) is excluded by --exclude.",
            "Remove it from the list to share it.",
        )
    try:
        encode(Slot(gpu.uuid, slots_of(gpu, rules) - 1))
    except BadDeviceId as error:
        return Refusal(
            ReasonCode("OddUuid"),
            f"GPU {gpu.uuid!r} cannot be named: {error}.",
            "Report this to the makers of nvshare-guard.",
        )
    if gpu.mig:
        return Refusal(
            ReasonCode("MigEnabled"),
            f"GPU {gpu.uuid} ({gpu.model}) is in MIG mode. MIG cards and their instances are not shared.",
            f"Switch MIG off (nvidia-smi -i {gpu.uuid} -mig 0) to share the card, or leave it to NVIDIA's plugin.",
        )
    if gpu.uuid in foreign:
        return Refusal(
            ReasonCode("ServedByAnother"),
            f"GPU {gpu.uuid} ({gpu.model}) is offered as {foreign[gpu.uuid]} by another device plugin here.",
            "Remove it there, or exclude it here with --exclude. Two plugins would use the GPU twice.",
        )
    return None

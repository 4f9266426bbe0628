"""Choose the slots of a container: as many distinct physical GPUs as it asks for, the best ones first.

Nothing here raises, because the kubelet rejects a pod when GetPreferredAllocation raises.  An unknown device id is put
last, and a missing one is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from contract.sharing.inventory import Inventory
from contract.words.device_id import Slot


class Strategy(StrEnum):
    """Which GPU is preferred: the emptiest, or the fullest that has room."""

    SPREAD = "spread"
    PACK = "pack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The kubelet's question for one container."""

    available: tuple[str, ...]
    """Device ids; the kubelet counts the ids of `must` among them."""
    must: tuple[str, ...] = ()
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How GPUs are ranked."""

    strategy: Strategy = Strategy.SPREAD
    penalty: Mapping[str, float] | None = None
    """Load-aware: each GPU's penalty without its share of taken slots (`scoring.py`).  None places by count."""
    taken_weight: float = 1.0
    """How much a GPU's share of taken slots adds to its penalty."""


@dataclass(slots=True)
class _Card:
    """One GPU while a container is placed."""

    uuid: str
    slots: int
    """0: the inventory does not know the GPU."""
    numa: int | None
    free: list[str] = field(default_factory=list)
    """Device ids, lowest ordinal last, because the next id is popped."""
    given: int = 0
    """How many slots this container already has on it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One choice, and each GPU's rank at that moment: the lowest was taken."""

    device_id: str
    ranks: Mapping[str, tuple[float | int | str, ...]]


def prefer(request: Request, inventory: Inventory, policy: Policy) -> tuple[str, ...]:
    """Return the ids to give: `must` first, then the best; as many as asked, or as there are."""
    return tuple(step.device_id for step in choose(request, inventory, policy))


def choose(request: Request, inventory: Inventory, policy: Policy) -> list[Step]:
    """Choose as `prefer` does, and return the ranks behind each choice."""
    cards = _cards(request, inventory)
    must = list(dict.fromkeys(request.must))[: max(request.size, 0)]
    steps = [_take(cards, inventory, device_id) for device_id in must]
    near = {card.numa for card in cards.values() if card.given and card.numa is not None}
    while len(steps) < request.size:
        ranks = {card.uuid: _rank(card, policy, near) for card in cards.values() if card.free}
        if not ranks:
            break
        best = cards[min(ranks, key=lambda uuid: ranks[uuid])]
        best.given += 1
        if best.numa is not None:
            near.add(best.numa)
        steps.append(Step(best.free.pop(), ranks))
    return steps


def _cards(request: Request, inventory: Inventory) -> dict[str, _Card]:
    """Return the GPUs that have room, in the order of their UUIDs, with their free slots sorted."""
    slots: dict[str, list[tuple[int, str]]] = {}
    must = set(request.must)
    for device_id in dict.fromkeys(request.available):
        slot = _slot(device_id, inventory)
        if device_id not in must:
            slots.setdefault(slot.uuid, []).append((slot.ordinal, device_id))
    for device_id in must:
        slots.setdefault(_slot(device_id, inventory).uuid, [])
    return {uuid: _card(uuid, slots[uuid], inventory) for uuid in sorted(slots)}


def _card(uuid: str, free: list[tuple[int, str]], inventory: Inventory) -> _Card:
    ids = [device_id for _, device_id in sorted(free, reverse=True)]
    return _Card(uuid, inventory.slots_on.get(uuid, 0), inventory.numa_of.get(uuid), ids)


def _slot(device_id: str, inventory: Inventory) -> Slot:
    """Return the id's slot; an id that the inventory does not know counts as a GPU of its own."""
    return inventory.slot_of.get(device_id) or Slot(device_id, 0)


def _take(cards: dict[str, _Card], inventory: Inventory, device_id: str) -> Step:
    cards[_slot(device_id, inventory).uuid].given += 1
    return Step(device_id, {})


def _rank(card: _Card, policy: Policy, near: set[int]) -> tuple[float | int | str, ...]:
    """Rank a GPU; the lowest rank wins.

    The order is: GPUs that this container does not have yet, known GPUs, the policy, close memory, the UUID.
    """
    free = len(card.free)
    share = free / card.slots if card.slots else 0.0
    unknown = 0 if card.slots else 1
    far = 1 if near and card.numa is not None and card.numa not in near else 0
    if policy.penalty is None:
        return (card.given, unknown, *_BY_COUNT[policy.strategy](share, free), far, card.uuid)
    penalty = policy.penalty.get(card.uuid, 0.0) + policy.taken_weight * (1.0 - share)
    return (card.given, unknown, round(penalty, 6), *_BY_COUNT[policy.strategy](share, free), far, card.uuid)


_BY_COUNT: dict[Strategy, Callable[[float, int], tuple[float, int]]] = {
    Strategy.SPREAD: lambda share, free: (-share, -free),
    Strategy.PACK: lambda share, free: (share, free),
}

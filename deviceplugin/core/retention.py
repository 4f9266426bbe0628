"""How long an allocation's folder stays, and which slots are free: read off the kubelet's books.

Owns the rule.  The kubelet's checkpoint knows every container's slots, those of init containers too; where it cannot be
read, pod-resources decides, and a folder stays as long as any of its slots is in use, for an init container's slots are
used again by those after it.  Pure, the clock is an argument.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contract.allocation import Allocation
from deviceplugin.core.checkpoint import IdSet
from deviceplugin.core.device_list import DeviceList

CAUTION = 10
"""How many times longer a folder stays when the checkpoint cannot be read."""


@dataclass(frozen=True, slots=True, order=True)
class Assignment:
    """The slots of one running container, as pod-resources tells them."""

    namespace: str
    pod: str
    container: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One answer of pod-resources."""

    assignments: tuple[Assignment, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    """GPUs that containers have of other plugins, each with its resource."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What the kubelet says at one moment."""

    assignments: tuple[Assignment, ...] = ()
    kept: frozenset[IdSet] | None = None
    """Of the checkpoint; None where it cannot be read."""

    def used(self) -> frozenset[str]:
        """Every device id that a running container has."""
        return frozenset(device_id for each in self.assignments for device_id in each.device_ids)

    def taken(self) -> frozenset[str]:
        """Every device id that the kubelet will not give out: init containers have some, too."""
        return self.used().union(*(self.kept or ()))


def is_in_use(allocation: Allocation, ownership: Ownership) -> bool:
    """May a container of this allocation run, now or later?"""
    if ownership.kept is None:
        return not ownership.used().isdisjoint(allocation.device_ids)
    return _is_shown(allocation, ownership) or frozenset(allocation.device_ids) in ownership.kept


def _is_shown(allocation: Allocation, ownership: Ownership) -> bool:
    return any(frozenset(each.device_ids) == frozenset(allocation.device_ids) for each in ownership.assignments)


def kept_by_checkpoint_alone(ownership: Ownership) -> frozenset[IdSet]:
    """Of init containers, or of pods that have ended: those the kubelet strikes out when it next writes."""
    return (ownership.kept or frozenset()) - {frozenset(each.device_ids) for each in ownership.assignments}


@dataclass(frozen=True, slots=True)
class Unused:
    """Since when an allocation was not in use; one that is allocated again begins anew."""

    allocation: Allocation
    since: float


def release(
    allocations: Iterable[Allocation],
    ownership: Ownership,
    waiting: Mapping[str, Unused],
    *,
    now: float,
    seconds: float,
) -> tuple[list[Allocation], dict[str, Unused]]:
    """The allocations to take away now, and those that wait for it."""
    patience = seconds if ownership.kept is not None else seconds * CAUTION
    gone: list[Allocation] = []
    still: dict[str, Unused] = {}
    for allocation in allocations:
        if is_in_use(allocation, ownership):
            continue
        before = waiting.get(allocation.key)
        since = before.since if before is not None and before.allocation == allocation else now
        if now - since >= patience:
            gone.append(allocation)
        else:
            still[allocation.key] = Unused(allocation, since)
    return gone, still


def free_slots(device_list: DeviceList, ownership: Ownership) -> dict[str, int]:
    """How many slots each shared GPU has to give: none while it is unhealthy."""
    slot_of = device_list.inventory.slot_of
    used = Counter(slot_of[device_id].uuid for device_id in ownership.taken() if device_id in slot_of)
    return {
        shared.gpu.uuid: 0 if shared.gpu.uuid in device_list.unhealthy else shared.slots - used[shared.gpu.uuid]
        for shared in device_list.inventory.shared
    }

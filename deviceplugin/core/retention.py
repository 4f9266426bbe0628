"""Decide how long an allocation's folder stays, and which slots are free, from what the kubelet says.

The module owns the rule.  The kubelet's checkpoint knows every container's slots, those of init containers too.  Where
the checkpoint cannot be read, pod-resources decides, and a folder stays while any of its slots is in use: the
containers after an init container use its slots again.  Pure: the clock is an argument.
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
    """The slots of one running container, as pod-resources lists them."""

    namespace: str
    pod: str
    container: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One answer of pod-resources."""

    assignments: tuple[Assignment, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    """GPUs that containers have from other plugins, each with its resource."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which container owns which slots, as the kubelet says it at one moment."""

    assignments: tuple[Assignment, ...] = ()
    kept: frozenset[IdSet] | None = None
    """Sets of device ids in the checkpoint; None where it cannot be read."""

    def used(self) -> frozenset[str]:
        """Return every device id that a running container has."""
        return frozenset(device_id for each in self.assignments for device_id in each.device_ids)

    def taken(self) -> frozenset[str]:
        """Return every device id that the kubelet will not give away, including the ids of init containers."""
        return self.used().union(*(self.kept or ()))


def is_in_use(allocation: Allocation, ownership: Ownership) -> bool:
    """Return whether a container of this allocation may run, now or later."""
    if ownership.kept is None:
        return not ownership.used().isdisjoint(allocation.device_ids)
    return _is_shown(allocation, ownership) or frozenset(allocation.device_ids) in ownership.kept


def _is_shown(allocation: Allocation, ownership: Ownership) -> bool:
    return any(frozenset(each.device_ids) == frozenset(allocation.device_ids) for each in ownership.assignments)


def kept_by_checkpoint_alone(ownership: Ownership) -> frozenset[IdSet]:
    """Return the sets of device ids that only the checkpoint shows.

    They belong to init containers, or to pods that have ended.  The kubelet removes the latter when it writes its
    checkpoint the next time.
    """
    return (ownership.kept or frozenset()) - {frozenset(each.device_ids) for each in ownership.assignments}


@dataclass(frozen=True, slots=True)
class Unused:
    """Since when an allocation is not in use.  The same slots, allocated again, start again."""

    allocation: Allocation
    since: float


def release(
    allocations: Iterable[Allocation],
    ownership: Ownership,
    unused: Mapping[str, Unused],
    *,
    now: float,
    seconds: float,
) -> tuple[list[Allocation], dict[str, Unused]]:
    """Return the allocations to remove now, and the unused allocations that still wait."""
    patience = seconds if ownership.kept is not None else seconds * CAUTION
    gone: list[Allocation] = []
    still: dict[str, Unused] = {}
    for allocation in allocations:
        if is_in_use(allocation, ownership):
            continue
        before = unused.get(allocation.key)
        since = before.since if before is not None and before.allocation == allocation else now
        if now - since >= patience:
            gone.append(allocation)
        else:
            still[allocation.key] = Unused(allocation, since)
    return gone, still


def free_slots(device_list: DeviceList, ownership: Ownership) -> dict[str, int]:
    """Return how many slots each shared GPU can still give: none while it is unhealthy."""
    slot_of = device_list.inventory.slot_of
    used = Counter(slot_of[device_id].uuid for device_id in ownership.taken() if device_id in slot_of)
    return {
        shared.gpu.uuid: 0 if shared.gpu.uuid in device_list.unhealthy else shared.slots - used[shared.gpu.uuid]
        for shared in device_list.inventory.shared
    }

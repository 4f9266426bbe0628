"""The binding of slots to devices: what the kubelet was told, and what a container's start has to write.

The module owns the states of an allocation in one life, which lasts from Allocate to the end of its pod:

    told       Allocate has answered with a CDI name that never was.  No spec exists, so no container can start.
    bound      the first start has written one spec with a device for each name told.
    bound anew a later start found that the devices have changed, and wrote the spec again under the next number.

A first start can only be late: there is no older spec with its name.  A later one could get the old spec, which the
runtime still remembers.  So its spec mounts a file of its own number, and the old number's file is gone: a container
with the old spec does not start.  Init containers lend their slots to containers after them, and every such container
has its own name for the same slots; they share one binding.  Which GPU the slots stand for is decided here too, once
it can be exchanged; today it is the GPU that the slots name.  Pure.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from contract.allocation import Allocation
from contract.words import paths

_PROOF = re.compile(rf"/{paths.BOUND_FILE}([0-9]+)\"")
MOST_NAMES = 64
"""More containers than one pod has on the same slots; the names of pods that never started go first."""


class Wait(Enum):
    """For what a start waits after it has written the spec."""

    NOTHING = "nothing"
    """No spec was written."""
    SEEN = "seen"
    """The runtime has opened it; no older spec has this name."""
    SETTLED = "settled"
    """The runtime has opened it, and other readers have had their time: an older spec has the same name."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a container's start does: bind the allocation, write the spec, wait."""

    allocation: Allocation
    wait: Wait
    spec: str = ""

    @property
    def must_write(self) -> bool:
        return self.wait is not Wait.NOTHING


def tell(new: Allocation, before: Allocation | None, suffix: str) -> Allocation:
    """Return the allocation after Allocate has answered with a new name for it.

    Allocate comes for all containers of a pod before the first of them starts.  So names that were told before a start
    belong to the same life, and a record that is bound is of a pod that has ended.
    """
    is_same_life = before is not None and before.binding == 0
    told = before.names if before is not None and is_same_life else ()
    return replace(new, names=(*told, f"{new.key}-{suffix}")[-MOST_NAMES:])


def settle(new: Allocation) -> Allocation:
    """Return the allocation where the answer of Allocate says everything and no spec follows."""
    return replace(new, binding=1)


def recover(record: Allocation, told: Iterable[str], pod: str) -> Allocation:
    """Return the record with what the kubelet itself has kept: the names in its answers, and the pod."""
    names = tuple(dict.fromkeys((*record.names, *told)))
    return replace(record, names=names, pod=pod or record.pod)


def start(record: Allocation, on_disk: str | None, render: Callable[[Allocation], str]) -> Start:
    """Return what the start of a container with these slots does; `render` gives the spec of an allocation.

    `on_disk` is the spec that lies in the folder now.  One without a name of this life is of another pod.
    """
    if record.binding and on_disk is not None and on_disk == render(record):
        return Start(record, Wait.NOTHING)
    older = _binding_in(on_disk) if on_disk is not None and any(name in on_disk for name in record.names) else None
    following = replace(record, binding=max(record.binding, older or 0) + 1)
    return Start(following, Wait.SEEN if older is None else Wait.SETTLED, render(following))


def _binding_in(spec: str) -> int:
    """Return the newest number whose proof a spec mounts; 0 where it is of a plugin without proofs."""
    return max(map(int, _PROOF.findall(spec)), default=0)

"""Read an allocation's folder: what the device plugin wrote there, and what the cluster once said of its pod.

`allocation.json` is the device plugin's.  `pod.json` is ours: a daemon that starts while the API server is away still
knows caps and weights from it.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from contract.allocation import Allocation, parse
from contract.control import PodFacts
from contract.grammar import AllocationKind, Mode
from contract.paths import ALLOCATION_FILE
from schedulerd.core.model import Container
from schedulerd.errors import NotYours

POD_FILE = "pod.json"


def read_allocation(folder: Path) -> Allocation:
    """Return what the device plugin wrote; refuse the client when it cannot be read."""
    try:
        found = parse((folder / ALLOCATION_FILE).read_text())
    except (OSError, ValueError) as error:
        raise NotYours(f"the allocation behind this socket cannot be read: {error}") from None
    return replace(found, uuids=tuple(map(sys.intern, found.uuids)))  # as in protocol/codec.py


def read_pod(folder: Path, allocation: Allocation) -> PodFacts | None:
    """What the cluster said of this very allocation earlier."""
    try:
        found = json.loads((folder / POD_FILE).read_text())
        if (
            found.pop("of") != allocation.container or not found["uid"]
        ):  # an older daemon kept the cluster's silence too
            return None
        return _pod_from(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _pod_from(found: Mapping[str, object]) -> PodFacts:
    facts = PodFacts(**found)  # type: ignore[arg-type]  # it is our own file; a wrong type is found by its use
    mode = None if facts.mode is None else Mode(facts.mode)
    kind = None if facts.allocation is None else AllocationKind(facts.allocation)
    return replace(facts, mode=mode, allocation=kind)


def write_pod(folder: Path, allocation: Allocation, facts: PodFacts) -> None:
    """Keep what the cluster said; whole or not at all."""
    temporary = folder / f".{POD_FILE}"
    temporary.write_text(json.dumps({"of": allocation.container, **asdict(facts)}))
    temporary.replace(folder / POD_FILE)


def describe(allocation: Allocation, facts: PodFacts) -> Container:
    """The container that an allocation and what is known of its pod make."""
    alone = len(allocation.uuids) == 1
    usual = Container(key=allocation.container, gpus=allocation.uuids)
    return replace(
        usual,
        mode=Mode.SINGLE if alone else facts.mode or Mode.PER_DEVICE,
        weight=facts.weight or usual.weight,
        priority=facts.priority or usual.priority,
        quantum=None if facts.quantum_ms is None else facts.quantum_ms / 1000,
        memory=facts.memory,
        allocation=facts.allocation or usual.allocation,
    )

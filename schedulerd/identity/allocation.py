"""The files in an allocation's folder: the allocation itself, and the facts of its pod.

The rule it owns: the device plugin writes `allocation.json`, the scheduler writes `pod.json`.  A daemon that starts
while the API server is away still knows caps and weights from `pod.json`.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from contract.allocation import Allocation, parse
from contract.wire.control import PodFacts
from contract.words.grammar import AllocationKind, Mode
from contract.words.paths import ALLOCATION_FILE
from schedulerd.core.model import Container, usual_allocation
from schedulerd.errors import NotYours

POD_FILE = "pod.json"


def read_allocation(folder: Path) -> Allocation:
    """Return the allocation that the device plugin wrote.  Refuse the client if it cannot be read."""
    try:
        found = parse((folder / ALLOCATION_FILE).read_text())
    except (OSError, ValueError) as error:
        raise NotYours(f"{ALLOCATION_FILE} of this socket's allocation cannot be read: {error}") from None
    return replace(found, uuids=tuple(map(sys.intern, found.uuids)))  # as in protocol/codec.py


def read_pod(folder: Path, allocation: Allocation) -> PodFacts | None:
    """Return the pod's facts that were kept for this very allocation, or None."""
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
    facts = PodFacts(**found)  # type: ignore[arg-type]  # it is our own file; a wrong type is noticed when it is used
    mode = None if facts.mode is None else Mode(facts.mode)
    kind = None if facts.allocation is None else AllocationKind(facts.allocation)
    return replace(facts, mode=mode, allocation=kind)


def write_pod(folder: Path, allocation: Allocation, facts: PodFacts) -> None:
    """Write the pod's facts, whole or not at all."""
    temporary = folder / f".{POD_FILE}"
    temporary.write_text(json.dumps({"of": allocation.container, **asdict(facts)}))
    temporary.replace(folder / POD_FILE)


def describe(allocation: Allocation, facts: PodFacts) -> Container:
    """Return the container that an allocation and the facts of its pod describe."""
    alone = len(allocation.uuids) == 1
    usual = Container(key=allocation.container, gpus=allocation.uuids)
    return replace(
        usual,
        mode=Mode.SINGLE if alone else facts.mode or Mode.PER_DEVICE,
        weight=facts.weight or usual.weight,
        priority=facts.priority or usual.priority,
        quantum=None if facts.quantum_ms is None else facts.quantum_ms / 1000,
        memory=facts.memory,
        allocation=facts.allocation or usual_allocation(allocation.uuids),
    )

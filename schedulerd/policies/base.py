"""What a policy is: two pure functions over what is known of a container on one GPU.

To add one: write `policies/<name>.py` with a `POLICY`, and list it in `policies/__init__.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

Seconds = float
FOREVER: Seconds = float("inf")


class Snapshot(NamedTuple):
    """A container on one GPU, as a policy sees it; fixed when it begins to wait, kept while it holds."""

    serial: int
    """The order in which wishes came."""
    priority: int
    weight: int
    virtual: Seconds
    """GPU time it has had, divided by its weight (1 for weight 100)."""
    burst: Seconds
    """How long it is expected to go on before it falls idle."""
    grants: int
    """The grants that the GPU had made when it came."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who goes first, and how long the holder may keep the GPU."""

    name: str
    sentence: str
    rank: Callable[[Snapshot], float]
    """The smallest goes first; equals go in the order they came."""
    patience: Callable[[Snapshot, Snapshot, Seconds], Seconds]
    """(holder, who waits, quantum): how long after its grant the holder is asked to yield."""
    ages: bool = True
    """Whether a single that was passed over too often goes first all the same; a gang always does."""


def by_arrival(_: Snapshot) -> float:
    """Nobody goes before who came earlier."""
    return 0.0


def a_quantum_each(_holder: Snapshot, _waiter: Snapshot, quantum: Seconds) -> Seconds:
    """The holder keeps the GPU for a quantum."""
    return quantum

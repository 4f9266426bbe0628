"""The type of a policy: two pure functions of what is known of a container on one GPU.

The rule it owns: a policy sees only `Snapshot`s.  To add a policy, write `policies/<name>.py` with a `POLICY` and list
it in `policies/__init__.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

Seconds = float
FOREVER: Seconds = float("inf")


class Snapshot(NamedTuple):
    """A container on one GPU, as a policy sees it.  It is taken when the container begins to wait, and kept while the
    container holds the GPU."""

    serial: int
    """The order in which requests came."""
    priority: int
    weight: int
    virtual: Seconds
    """The GPU time that it has had, divided by its weight (1 for weight 100)."""
    burst: Seconds
    """How long it is expected to work before it falls idle."""
    grants: int
    """The number of grants on the GPU when it came."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule which container goes first, and how long the holder may keep the GPU."""

    name: str
    sentence: str
    rank: Callable[[Snapshot], float]
    """The smallest rank goes first.  Equal ranks go in the order of arrival."""
    patience: Callable[[Snapshot, Snapshot, Seconds], Seconds]
    """(holder, waiter, quantum): how long after its grant the holder is asked to yield."""
    ages: bool = True
    """Whether a request for one GPU that was passed over too often goes first.  A gang's request always does."""


def by_arrival(_: Snapshot) -> float:
    """Rank all requests equally, so that they go in the order of arrival."""
    return 0.0


def a_quantum_each(_holder: Snapshot, _waiter: Snapshot, quantum: Seconds) -> Seconds:
    """Let the holder keep the GPU for a quantum."""
    return quantum

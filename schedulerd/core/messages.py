"""The messages of the wire as values: one class for each verb of `PROTOCOL.md`.

The rule it owns: the meaning and the unit of each field.  `shared` is `beside` on the wire.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from contract.words.grammar import AllocationKind, Mode, OnLoss
from schedulerd.policies import Seconds


@dataclass(frozen=True, slots=True)
class Held:
    """A turn that a daemon before this one granted, and a GPU of that turn."""

    turn: str
    gpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message of a process.  The fields from `container` on are believed only stand-alone."""

    pid: int
    gpus: tuple[str, ...]
    holding: tuple[Held, ...] = ()
    shared: tuple[Held, ...] = ()
    container: str | None = None
    mode: Mode | None = None
    weight: int | None = None
    priority: int | None = None
    quantum_ms: int | None = None
    memory: int | None = None
    allocation: AllocationKind | None = None
    on_loss: OnLoss | None = None
    card_bytes: tuple[int, ...] = ()
    """The size of each card of `gpus`, in the same order; 0 where the process does not know it."""


class Want(NamedTuple):
    """The process has work for these GPUs."""

    gpus: tuple[str, ...]


class Done(NamedTuple):
    """Nothing of the process is in flight on the turn's GPUs."""

    turn: str
    gpus: tuple[str, ...] | None = None
    reason: str = "yield"
    busy_us: int = 0


class Using(NamedTuple):
    """The bytes that the process has allocated on a GPU."""

    gpu: str
    pageable: int
    unpageable: int


class Reserve(NamedTuple):
    """The container is about to grow to this many bytes on a GPU."""

    gpu: str
    bytes: int


ClientMessage = Hello | Want | Done | Using | Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The answer to `hello`."""

    client: int
    epoch: str
    container: str
    mode: Mode
    gpus: tuple[str, ...]
    slot: int
    memory: int | None
    allocation: AllocationKind
    on_loss: OnLoss
    announce_ms: int
    grace_ms: int
    flight_ms: int
    alone_flight_ms: int


class Grant(NamedTuple):
    """The container may use these GPUs from now on."""

    turn: str
    gpus: tuple[str, ...]
    quantum_ms: int
    shared: bool = False
    waiting: bool = False
    keep_ms: int = 0
    """Only with `waiting`.  The meaning is that of `wanted`."""
    quiet_ms: int = 0
    """Only without `waiting`: for how long no container has waited for any of these GPUs."""


class Wanted(NamedTuple):
    """Another container waits for a GPU of this turn."""

    turn: str
    keep_ms: int


class Yield(NamedTuple):
    """The process must start nothing more, and answer `done` when nothing is in flight."""

    turn: str
    grace_ms: int


class Revoked(NamedTuple):
    """The turn is over, even if work is still in flight."""

    turn: str
    reason: str


class Reserved(NamedTuple):
    """The container may grow to this many bytes on a GPU."""

    gpu: str
    bytes: int


class Complaint(NamedTuple):
    """A line was refused."""

    code: str
    message: str
    verb: str
    wait: bool = False
    """The answer may change, and the connection will be told."""


Answer = Welcome | Grant | Wanted | Yield | Revoked | Reserved | Complaint


@lru_cache(maxsize=4096)
def milliseconds(seconds: Seconds) -> int:
    """Return whole milliseconds for the wire; never 0."""
    return max(1, round(seconds * 1000))

"""The wire's messages as values: what `PROTOCOL.md` tables, one class a verb.

Owns no rule but each field's meaning and unit.
"""

from dataclasses import dataclass
from typing import NamedTuple

from contract.grammar import AllocationKind, Mode, OnLoss


@dataclass(frozen=True, slots=True)
class Held:
    """A turn of a daemon that has gone, and a GPU of it."""

    turn: str
    gpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A process introduces itself; the fields from `container` on are believed only stand-alone."""

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


class Want(NamedTuple):
    """There is work for these GPUs."""

    gpus: tuple[str, ...]


class Done(NamedTuple):
    """Nothing of the process is in flight on the turn's GPUs."""

    turn: str
    gpus: tuple[str, ...] | None = None
    reason: str = "yield"
    busy_us: int = 0


class Using(NamedTuple):
    """What the process has allocated, in bytes."""

    gpu: str
    pageable: int
    unpageable: int


class Reserve(NamedTuple):
    """The container is about to grow to so many bytes."""

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


class Grant(NamedTuple):
    """The container may use these GPUs from now on."""

    turn: str
    gpus: tuple[str, ...]
    quantum_ms: int
    shared: bool = False
    waiting: bool = False
    keep_ms: int = 0
    """With `waiting`: as in `wanted`."""


class Wanted(NamedTuple):
    """Somebody waits for a GPU of this turn."""

    turn: str
    keep_ms: int


class Yield(NamedTuple):
    """Start nothing more; say when nothing is in flight."""

    turn: str
    grace_ms: int


class Revoked(NamedTuple):
    """The turn is over, whatever is still in flight."""

    turn: str
    reason: str


class Reserved(NamedTuple):
    """The container may grow to so many bytes."""

    gpu: str
    bytes: int


class Complaint(NamedTuple):
    """A line was refused."""

    code: str
    message: str
    verb: str


Answer = Welcome | Grant | Wanted | Yield | Revoked | Reserved | Complaint

"""What the core knows: rules, containers, GPUs, wishes, turns, and the orders it gives.

Containers' facts, rules and orders are frozen; the rest is the state of one `Turns` object and changes only in it.
"""

# The core's state: which object holds it, and which module alone changes it.  All of it is reached from one `Turns`;
# shells read it, and change it by the methods of `Turns` and the functions of `operator`.
#
#   state                                    held by                              changed by
#   ---------------------------------------  -----------------------------------  ----------------------------------
#   which GPUs are known                     Grants.gpus                          turns (add_gpu)
#   which containers and processes are here  Turns.tenants, Turns.members         turns (join, leave)
#   a container's facts, gang, anew          Tenant                               turns, operator, deadlock (gang)
#   who waits: wishes, lines, claims, age    Tenant.wishes, Gpu.queue, Gpu.claim  grants, operator (order of the lines)
#   who holds: turns, stage, deadline        Grants.turns, Gpu.holders, Turn      grants
#   which processes a turn waits for         Turn.riders                          grants; turns (done, leave)
#   time charged, the GPU's virtual clock    Share.held, Share.virtual, Gpu.clock grants (accrue); turns (the clock)
#   memory counted and promised              Share, Gpu.needed, Gpu.reserving     memory (recount), turns
#   cards' sizes; pause, drain, fixed turn   Gpu.capacity, .paused, .drained      operator
#   holders of an earlier daemon             Gpu.missing, Gpu.closed_until        turns (add_gpu), recovery, grants
#   containers that wait for each other      JamWatch                             deadlock
#   containers that have left                Histories                            history
#   the rules                                Grants.rules                         operator
#   when to look again                       Gpu.alarm, Grants.soonest            grants (ring, wake)
#   what the shell is to do                  Grants.orders                        each of them adds; take_orders takes

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from contract import limits
from contract import wire as numbers
from contract.grammar import AllocationKind, Mode, OnLoss
from schedulerd.core.messages import Answer, Hello, Welcome
from schedulerd.core.usage import BusyTime, Share
from schedulerd.core.wait_queue import WaitQueue
from schedulerd.policies import DEFAULT, FOREVER, Policy, Seconds, Snapshot

MIB = 1 << 20
SOMEBODY = ""
"""A holder under an earlier daemon whose name is not known: only time tells when it has gone."""
UNKNOWN = 0
"""The pid of a process that goes by none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator decides; each time in seconds, each size in bytes."""

    policy: Policy = DEFAULT
    quantum: Seconds = 0.1
    """A turn where switching is cheap."""
    fixed_quantum: Seconds | None = None
    """A turn, whatever switching costs; set by the operator."""
    longest_quantum: Seconds = 180.0
    switching_share: float = 0.02
    """The part of GPU time that switching may cost when the working sets do not fit together."""
    paging_rate: float = 5.0e9
    """Bytes a second at which a working set moves in; a P100 over PCIe 3 was measured at 5.7e9."""
    side_by_side: bool = True
    card_reserve: int = 256 * MIB
    """Left free on a card when containers run side by side."""
    context_bytes: int = 300 * MIB
    """What a process's context takes on a card, which nobody reports."""
    grace: Seconds = numbers.GRACE_MS / 1000
    announce: Seconds = numbers.ANNOUNCE_MS / 1000
    hush: Seconds = 0.001
    """A turn younger than this is left alone: most short ones are over by then, and nobody need hear of who waits."""
    keep: Seconds = 0.005
    """How long a holder that somebody waits for may be idle."""
    jam: Seconds = 0.5
    """How long containers may wait for each other before they are asked to yield."""
    probe: Seconds = 0.75
    """How long after that they are taken to be jammed."""
    age_turns: int = 4
    """A wish that was passed over so many times the containers on its GPU goes first."""
    least_turn: Seconds = 0.01
    """A GPU that must be free sooner than this is not granted for the meantime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What is known of a container that was given GPUs."""

    key: str
    gpus: tuple[str, ...]
    mode: Mode = Mode.SINGLE
    weight: int = limits.DEFAULT_WEIGHT
    priority: int = 0
    quantum: Seconds | None = None
    memory: int | None = None
    allocation: AllocationKind = AllocationKind.MANAGED
    on_loss: OnLoss = OnLoss.WAIT


class Stage(Enum):
    """How far a turn has come."""

    RUNNING = auto()
    YIELDING = auto()


@dataclass(slots=True, eq=False)
class ContainerState:
    """A container with at least one process connected; of those that left, `Histories` knows."""

    facts: Container
    gang: bool
    """It gets all its GPUs or none: by its mode, or since it jammed."""
    processes: dict[int, int] = field(default_factory=dict)
    """Its connected processes and their ledger slots."""
    pids: dict[int, int] = field(default_factory=dict)
    roster: tuple[int, ...] = ()
    """The pids alone."""
    peers: dict[int, int] = field(default_factory=dict)
    """The pids of its connected processes as the kernel says; where it does not, a number that nobody else has."""
    contexts: int = 0
    """How many processes that makes: each has a context on each card, however often it connects."""
    must_reconnect: bool = False
    """What its processes were told is wrong: it gets no turn, and they are hung up on when those it has are over."""
    requests: dict[str, "Request"] = field(default_factory=dict)
    turns: dict[str, "Turn"] = field(default_factory=dict)
    shares: dict[str, Share] = field(default_factory=dict)
    groups: dict[tuple[str, ...], tuple["Group", ...]] = field(default_factory=dict)
    """What `want gpus=…` has meant so far: the sets of GPUs that are granted together."""


class Group(NamedTuple):
    """GPUs that are granted together."""

    gpus: tuple["Gpu", ...]
    names: tuple[str, ...]
    together: bool
    """There are several."""


def grouped(gpus: tuple["Gpu", ...]) -> Group:
    """These GPUs, granted together."""
    return Group(gpus, tuple(gpu.uuid for gpu in gpus), len(gpus) > 1)


@dataclass(slots=True, eq=False)
class Request:
    """A container waits for GPUs: one, or all that a gang has."""

    container: ContainerState
    gpus: tuple["Gpu", ...]
    serial: int
    since: Seconds
    by: set[int]
    """The processes that have work."""
    snapshots: dict[str, Snapshot]
    names: tuple[str, ...]
    together: bool
    aged: bool = False
    drain_at: Seconds | None = None
    """When those in its way are asked to yield, once it has a claim on its GPUs."""


@dataclass(slots=True, eq=False)
class Turn:
    """A container has GPUs."""

    word: int
    """What the gates of its GPUs say while it goes on."""
    name: str
    container: ContainerState
    gpus: tuple["Gpu", ...]
    names: tuple[str, ...]
    granted_at: Seconds
    quantum: Seconds
    snapshots: dict[str, Snapshot]
    shared: bool
    """Others may be on its GPUs at the same time."""
    processes_running: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The processes that have not yet answered `done`, and the GPUs they may still use."""
    told: bool = False
    """Its processes know that somebody waits."""
    stage: Stage = Stage.RUNNING
    deadline: Seconds = FOREVER
    reason: str = "overdue"
    """Why it is revoked when the deadline passes."""


@dataclass(slots=True, eq=False)
class Gpu:
    """A physical GPU or MIG instance, and who is on it."""

    uuid: str
    queue: WaitQueue[Request]
    closed_until: Seconds
    """A daemon that went away may have left a holder; nobody is granted before this, unless the holder says so."""
    missing: dict[str, list[int]] = field(default_factory=dict)
    """Containers that had it under an earlier daemon, and the pids of their processes that have not come back."""
    holders: list[Turn] = field(default_factory=list)
    containers: dict[str, ContainerState] = field(default_factory=dict)
    claim: Request | None = None
    reserving: dict[int, tuple[ContainerState, int]] = field(default_factory=dict)
    """The processes that wait for room here, and the bytes each asked for."""
    grants: int = 0
    switches: int = 0
    last_holder: str = ""
    clock: Seconds = 0.0
    """Virtual time: where a container begins that comes new or after a rest; nobody who begins is far ahead of it."""
    accrued_at: Seconds = 0.0
    capacity: int | None = None
    drained: bool = False
    paused: str | None = None
    """Why nobody is granted it: `paused`, `drained`."""
    fixed_quantum: Seconds | None = None
    needed: int = 0
    """Bytes that all its containers have or were promised, contexts included."""
    pinned: int = 0
    """The part of them that cannot be paged out."""
    alarm: Seconds = FOREVER
    busy: BusyTime = field(default_factory=BusyTime)

    def uncharged(self, now: Seconds) -> Seconds:
        """Return how long it has been held since the holders were last charged for it; changes nothing."""
        return max(0.0, now - self.accrued_at) if self.holders else 0.0

    def busy_lately(self, now: Seconds) -> float:
        """Return the share of the last ten seconds in which somebody held it; changes nothing."""
        return self.busy.lately(now=now, charged_at=self.accrued_at, uncharged=self.uncharged(now))


class Tell(NamedTuple):
    """Send a message to processes."""

    to: tuple[int, ...]
    message: Answer


class SetGate(NamedTuple):
    """Write the gate's word of a container's GPU; 0 closes it."""

    container: str
    gpu: str
    word: int
    pids: tuple[int, ...] = ()
    """Of the processes that may use it from now on, or still, as one of an earlier daemon's that has not come back."""


class Accounted(NamedTuple):
    """A container that had a GPU under an earlier daemon has said that it does not any more, or cannot."""

    container: str
    gpu: str


class FreeSlot(NamedTuple):
    """A process has gone: its ledger slot is to be zeroed."""

    container: str
    slot: int


class Notice(NamedTuple):
    """Something that an operator should hear of."""

    kind: str
    """`overdue`, `jam` or `above-cap`."""
    containers: tuple[str, ...]
    gpus: tuple[str, ...]


class Hangup(NamedTuple):
    """Close a connection once what was written to it has gone out."""

    client: int


class Admit(NamedTuple):
    """A process was let in: its container's gate and ledger go with the welcome."""

    client: int
    welcome: Welcome


class Ask(NamedTuple):
    """The container behind a connection must be looked up: call `Sessions.identified` with the answer."""

    client: int
    hello: Hello


Order = Tell | SetGate | Accounted | FreeSlot | Notice | Hangup | Admit | Ask

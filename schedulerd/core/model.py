"""The values of the core: rules, containers, GPUs, requests, turns, and the orders that the core gives.

The rule it owns: the facts of containers, the rules and the orders are frozen.  All other values are the state of one
`Turns` object, and only the core changes them.
"""

# The core's state: which object holds it, and which module alone changes it.  All of it is reached from one `Turns`;
# shells read it, and change it by the methods of `Turns` and the functions of `operator`.
#
#   state                                    held by                                    changed by
#   ---------------------------------------  -----------------------------------------  ------------------------------
#   which GPUs are known                     Grants.gpus                                turns (add_gpu)
#   which containers and processes are here  Turns.containers, Turns.members            turns (join, leave)
#   a container's facts, gang, reconnect     ContainerState                             turns, operator, deadlock (gang)
#   requests, queues, claims, age            ContainerState.requests, Gpu.queue, .claim  grants, operator (order)
#   holders: turns, stage, deadline          Grants.turns, Gpu.holders, Turn            grants
#   the processes that a turn waits for      Turn.processes_running                     grants; turns (done, leave)
#   time charged, the GPU's virtual clock    Share.held, Share.virtual, Gpu.clock       grants (accrue); turns
#   time in flight, the longest launch       Share.busy, .in_flight, .longest           in_flight
#   when somebody last waited                Gpu.waited_at                              grants, turns, recovery
#   memory counted and promised              Share, Gpu.needed, Gpu.reserving           memory (recount), turns
#   cards' sizes, and who said them          Gpu.capacity, .measured, card_bytes        card_size
#   pause, drain, fixed turn                 Gpu.paused, .drained, .fixed_quantum       operator
#   holders of an earlier daemon             Gpu.missing, Gpu.closed_until              turns, recovery, grants
#   containers that wait for each other      DeadlockWatch                              deadlock
#   containers that have left                Histories                                  history
#   the rules                                Grants.rules                               operator
#   when to look again                       Gpu.alarm, Grants.soonest                  grants (ring, wake)
#   what the shell is to do                  Grants.orders                              each adds; take_orders takes

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from contract.wire import numbers
from contract.words import limits
from contract.words.grammar import AllocationKind, Mode, OnLoss
from schedulerd.core.messages import Answer, Hello, Welcome
from schedulerd.core.usage import BusyTime, Share
from schedulerd.core.wait_queue import WaitQueue
from schedulerd.policies import DEFAULT, FOREVER, Policy, Seconds, Snapshot

MIB = 1 << 20
UNKNOWN_HOLDER = ""
"""The key of a holder under an earlier daemon whose name is not known.  Only time tells when it has gone."""
UNKNOWN = 0
"""The pid of a process whose pid is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The operator's decisions.  Times are in seconds, sizes in bytes."""

    policy: Policy = DEFAULT
    quantum: Seconds = 0.1
    """The length of a turn where switching is cheap."""
    fixed_quantum: Seconds | None = None
    """The length of a turn whatever switching costs; set by the operator."""
    longest_quantum: Seconds = 180.0
    switching_share: float = 0.02
    """The part of GPU time that switching may cost when the working sets do not fit together."""
    paging_rate: float = 5.0e9
    """Bytes a second at which a working set moves in; a P100 over PCIe 3 was measured at 5.7e9."""
    side_by_side: bool = True
    card_reserve: int = 256 * MIB
    """The memory that stays free on a card when containers run side by side."""
    context_bytes: int = 300 * MIB
    """The memory that the context of a process takes on a card.  Nobody reports it."""
    grace: Seconds = numbers.GRACE_MS / 1000
    announce: Seconds = numbers.ANNOUNCE_MS / 1000
    alone_flight: Seconds = numbers.ALONE_FLIGHT_MS / 1000
    """How much work a process may have in flight while no other container waits.  The grace is longer."""
    hush: Seconds = 0.001
    """A turn younger than this is left alone.  Most short turns end by then, and their processes need no `wanted`."""
    keep: Seconds = 0.005
    """How long a holder may be idle while another container waits."""
    jam: Seconds = 0.5
    """How long containers may wait for each other before they are asked to yield."""
    probe: Seconds = 0.75
    """How long after that they count as jammed."""
    age_turns: int = 4
    """A request goes first after its GPU was granted to others this many times for each container on the GPU."""
    least_turn: Seconds = 0.01
    """A GPU that a claim needs sooner than this is not granted in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The facts of a container that was given GPUs."""

    key: str
    gpus: tuple[str, ...]
    mode: Mode = Mode.SINGLE
    weight: int = limits.DEFAULT_WEIGHT
    priority: int = 0
    quantum: Seconds | None = None
    memory: int | None = None
    allocation: AllocationKind = AllocationKind.MANAGED
    on_loss: OnLoss = OnLoss.WAIT


def usual_allocation(gpus: Sequence[str]) -> AllocationKind:
    """Return the kind of memory of a container that does not say which it wants.

    Programs on several GPUs share memory between processes and with network cards (NCCL, vLLM, torch.multiprocessing,
    RDMA), and the driver refuses that for managed memory.
    """
    return AllocationKind.MANAGED if len(gpus) == 1 else AllocationKind.PLAIN


class Stage(Enum):
    """The state of a turn: it goes on, or its processes were asked to yield."""

    RUNNING = auto()
    YIELDING = auto()


@dataclass(slots=True, eq=False)
class ContainerState:
    """A container with at least one connected process.  `Histories` remembers the containers that have left."""

    facts: Container
    gang: bool
    """It gets all its GPUs or none.  The reason is its mode, or that it jammed."""
    processes: dict[int, int] = field(default_factory=dict)
    """The ledger slot of each connected process."""
    card_bytes: dict[str, int] = field(default_factory=dict)
    """The sizes of its cards, as its processes say; believed only where NVML tells none."""
    pids: dict[int, int] = field(default_factory=dict)
    """The pid of each connected process, as the process says."""
    roster: tuple[int, ...] = ()
    """Only the pids."""
    peers: dict[int, int] = field(default_factory=dict)
    """The pid of each connected process, as the kernel says.  Where the kernel does not say, a number of its own."""
    contexts: int = 0
    """The number of different processes in `peers`.  A process has one context on each card, however often it
    connects."""
    must_reconnect: bool = False
    """The welcome of its processes is out of date.  It gets no new turn, and its connections are closed when the turns
    that it has are over."""
    requests: dict[str, "Request"] = field(default_factory=dict)
    turns: dict[str, "Turn"] = field(default_factory=dict)
    shares: dict[str, Share] = field(default_factory=dict)
    groups: dict[tuple[str, ...], tuple["Group", ...]] = field(default_factory=dict)
    """For each list of GPUs that `want` has named: the sets of GPUs that are granted together."""


class Group(NamedTuple):
    """GPUs that are granted together."""

    gpus: tuple["Gpu", ...]
    names: tuple[str, ...]
    together: bool
    """There are several GPUs."""


def grouped(gpus: tuple["Gpu", ...]) -> Group:
    """Return these GPUs as a group."""
    return Group(gpus, tuple(gpu.uuid for gpu in gpus), len(gpus) > 1)


@dataclass(slots=True, eq=False)
class Request:
    """The request of a container that waits for GPUs: for one GPU, or for all GPUs of a gang."""

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
    """When the holders of its GPUs are asked to yield.  None while it has no claim on its GPUs."""


@dataclass(slots=True, eq=False)
class Turn:
    """The time in which a container has GPUs, from the grant to the end."""

    word: int
    """The word in the gates of its GPUs while it goes on."""
    name: str
    container: ContainerState
    gpus: tuple["Gpu", ...]
    names: tuple[str, ...]
    granted_at: Seconds
    quantum: Seconds
    snapshots: dict[str, Snapshot]
    shared: bool
    """Other containers may be on its GPUs at the same time."""
    processes_running: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The processes that have not yet answered `done`, and the GPUs that each may still use."""
    told: bool = False
    """Its processes know that another container waits."""
    stage: Stage = Stage.RUNNING
    deadline: Seconds = FOREVER
    extended: bool = False
    """The deadline was moved for a long launch; that happens once."""
    reason: str = "overdue"
    """The reason that is given if it is revoked at the deadline."""


@dataclass(slots=True, eq=False)
class Gpu:
    """A physical GPU, and the containers on it."""

    uuid: str
    queue: WaitQueue[Request]
    closed_until: Seconds
    """A daemon that went away may have left a holder.  No other container gets the GPU before this time, unless all
    processes of the old holders have come back."""
    missing: dict[str, list[int]] = field(default_factory=dict)
    """The containers that had it under an earlier daemon, and the pids of their processes that have not come back."""
    holders: list[Turn] = field(default_factory=list)
    containers: dict[str, ContainerState] = field(default_factory=dict)
    claim: Request | None = None
    reserving: dict[int, tuple[ContainerState, int]] = field(default_factory=dict)
    """The processes that wait for memory here, and the bytes that each asked for."""
    waited_at: Seconds = -FOREVER
    """When a container last waited for it."""
    grants: int = 0
    switches: int = 0
    last_holder: str = ""
    clock: Seconds = 0.0
    """Virtual time.  A container that is new, or comes after a rest, begins here.  A container that begins to wait is
    never far ahead of it."""
    accrued_at: Seconds = 0.0
    capacity: int | None = None
    """The size of the card: what NVML says, else what all containers agree on, else unknown."""
    measured: int | None = None
    """The size of the card, as NVML says."""
    drained: bool = False
    paused: str | None = None
    """The reason why no container gets it: `paused` or `drained`."""
    fixed_quantum: Seconds | None = None
    needed: int = 0
    """The bytes that all its containers have or were promised, contexts included."""
    pinned: int = 0
    """The part of `needed` that cannot be paged out."""
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
    """Write the gate's word of a container's GPU.  0 closes the gate."""

    container: str
    gpu: str
    word: int
    pids: tuple[int, ...] = ()
    """The processes that may use the GPU: connected ones, and those of an earlier daemon that have not come back."""


class Accounted(NamedTuple):
    """The next daemon need not wait for a container that had a GPU under an earlier daemon: it has given the GPU up, or
    its time is over."""

    container: str
    gpu: str


class FreeSlot(NamedTuple):
    """Zero the ledger slot of a process that has gone."""

    container: str
    slot: int


class Notice(NamedTuple):
    """Tell the operators of an event."""

    kind: str
    """`overdue`, `jam` or `above-cap`."""
    containers: tuple[str, ...]
    gpus: tuple[str, ...]


class Hangup(NamedTuple):
    """Close a connection when all that was written to it has been sent."""

    client: int


class Admit(NamedTuple):
    """Let a process in: send the welcome with the gate and the ledger of its container."""

    client: int
    welcome: Welcome


class Ask(NamedTuple):
    """Look up the container behind a connection, and call `Sessions.identified` with the answer."""

    client: int
    hello: Hello


Order = Tell | SetGate | Accounted | FreeSlot | Notice | Hangup | Admit | Ask

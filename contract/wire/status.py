"""The status: all that the scheduler says of its GPUs, containers and turns, as types.

The control socket's request `status` is answered by a `daemon` line, a `gpu` line for each GPU, a `container` line for
each container and after it a `place` line for each of its GPUs, then `end`.  `nvsharectl` and the metrics read these
types; no other module knows the lines' keys.  Named tuples, since
`dataclasses` costs `nvsharectl` too much at its start.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from contract.errors import BadLine
from contract.wire.form import COUNT, COUNTS, FLAG, NAME, NUMBER, SHARE, TALLY, TEXT, WHOLE, Form, Kind
from contract.wire.line import Line, encode

QUERY = encode(Line("status"))
_NONE: Mapping[str, int] = MappingProxyType({})


class State(StrEnum):
    """What a container does on a GPU."""

    HOLDS = "holds"
    YIELDS = "yields"
    """It still holds the GPU, and was asked to give it back."""
    WAITS = "waits"
    RESTS = "rests"


class DaemonStatus(NamedTuple):
    """The turn process itself."""

    epoch: str = ""
    policy: str = ""
    quantum_ms: int | None = None
    """A turn that an operator fixed for all GPUs; None: it adapts."""
    side_by_side: bool = False
    containers: int = 0
    processes: int = 0
    jams: int = 0
    """Groups of containers that waited for each other, so far."""
    foreign: int = 0
    """Clients of another pod than their socket's, so far."""
    loop: tuple[int, ...] = ()
    """The histogram of how long batches of events took."""
    loop_us: int | None = None
    """Microseconds in batches, all together."""
    refusals: Mapping[str, int] = _NONE
    """Refused lines, by code."""
    limits: Mapping[str, int] = _NONE
    """How often a container reached a limit, by limit."""


class GpuStatus(NamedTuple):
    """One GPU; what NVML does not say is None."""

    uuid: str
    clients: int = 0
    """Containers that have it."""
    holders: int = 0
    """Containers whose turn it is."""
    waiting: int = 0
    """Containers that wait for a turn."""
    busy: float = 0.0
    """The share of the last ten seconds in which somebody held it."""
    busy_ms: int = 0
    grants: int = 0
    switches: int = 0
    """Turns that went to another container than the turn before."""
    drained: bool = False
    paused: str = ""
    """Why it is not granted: `paused` or `drained`; empty when it is."""
    quantum_ms: int | None = None
    """A turn that an operator fixed for this GPU."""
    needed: int = 0
    """Bytes that its containers have or were promised, contexts included."""
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    power: float | None = None
    utilization: float | None = None


class ContainerStatus(NamedTuple):
    """One connected container; pod and container are empty while the cluster has not named them."""

    key: str
    namespace: str = ""
    pod: str = ""
    container: str = ""
    mode: str = ""
    gang: bool = False
    """It gets all its GPUs in one turn: by its mode, or since it jammed."""
    weight: int = 0
    priority: int = 0
    processes: int = 0
    pids: tuple[int, ...] = ()
    """As the node numbers them; those that the kernel does not show are left out."""
    memory: int | None = None
    """Its cap on each GPU, in bytes."""


class PlaceStatus(NamedTuple):
    """One container on one of its GPUs; times and counts are since it came."""

    key: str
    gpu: str
    state: State
    since_ms: int | None = None
    """How long it has held the GPU or waited for it."""
    held_us: int = 0
    busy_us: int = 0
    """With work in flight, by its processes' own word."""
    waited_us: int = 0
    waits: tuple[int, ...] = ()
    """The histogram of its waits."""
    turns: int = 0
    yields: int = 0
    """How often it was asked to yield."""
    overdue: int = 0
    """How often it was shut out after the grace."""
    pageable: int = 0
    unpageable: int = 0


class Status(NamedTuple):
    """The whole answer; no daemon: nobody answered."""

    daemon: DaemonStatus | None = None
    gpus: tuple[GpuStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    places: tuple[PlaceStatus, ...] = ()


Entry = DaemonStatus | GpuStatus | ContainerStatus | PlaceStatus
_STATE = Kind(" or ".join(State), State)
_FORMS: dict[type, Form[Any]] = {
    DaemonStatus: Form(
        "daemon",
        DaemonStatus,
        {
            "epoch": TEXT,
            "policy": TEXT,
            "quantum_ms": COUNT,
            "side_by_side": FLAG,
            "containers": COUNT,
            "processes": COUNT,
            "jams": COUNT,
            "foreign": COUNT,
            "loop": COUNTS,
            "loop_us": COUNT,
            "refusals": TALLY,
            "limits": TALLY,
        },
    ),
    GpuStatus: Form(
        "gpu",
        GpuStatus,
        {
            "uuid": NAME,
            "clients": COUNT,
            "holders": COUNT,
            "waiting": COUNT,
            "busy": SHARE,
            "busy_ms": COUNT,
            "grants": COUNT,
            "switches": COUNT,
            "drained": FLAG,
            "paused": TEXT,
            "quantum_ms": COUNT,
            "needed": COUNT,
            "memory_used": COUNT,
            "memory_total": COUNT,
            "temperature": WHOLE,
            "power": NUMBER,
            "utilization": NUMBER,
        },
        needs=("uuid",),
    ),
    ContainerStatus: Form(
        "container",
        ContainerStatus,
        {
            "key": NAME,
            "namespace": TEXT,
            "pod": TEXT,
            "container": TEXT,
            "mode": TEXT,
            "gang": FLAG,
            "weight": COUNT,
            "priority": WHOLE,
            "processes": COUNT,
            "pids": COUNTS,
            "memory": COUNT,
        },
        needs=("key",),
    ),
    PlaceStatus: Form(
        "place",
        PlaceStatus,
        {
            "key": NAME,
            "gpu": NAME,
            "state": _STATE,
            "since_ms": COUNT,
            "held_us": COUNT,
            "busy_us": COUNT,
            "waited_us": COUNT,
            "waits": COUNTS,
            "turns": COUNT,
            "yields": COUNT,
            "overdue": COUNT,
            "pageable": COUNT,
            "unpageable": COUNT,
        },
        needs=("key", "gpu", "state"),
    ),
}
_READERS: dict[str, Callable[[Line], Entry]] = {form.verb: form.read for form in _FORMS.values()}


def encode_entry(entry: Entry) -> bytes:
    """Return one line of the answer."""
    return encode(_FORMS[type(entry)].write(entry))


def decode_status(lines: Iterable[Line]) -> Status:
    """Return the status that an answer's lines say, its `end` left out; verbs of a later version are ignored."""
    found: dict[type, list[Any]] = {kind: [] for kind in _FORMS}
    for line in lines:
        reader = _READERS.get(line.verb)
        if reader is not None:
            entry = reader(line)
            found[type(entry)].append(entry)
    if len(found[DaemonStatus]) != 1:
        raise BadLine(f"a status has one 'daemon' line, not {len(found[DaemonStatus])}")
    return Status(
        daemon=found[DaemonStatus][0],
        gpus=tuple(found[GpuStatus]),
        containers=tuple(found[ContainerStatus]),
        places=tuple(found[PlaceStatus]),
    )

"""Events of the plugin as values: the part that sees one reports it once, and every reader takes what it needs.

The module owns the list of events, and how each is shown on the Node.  Log lines and metrics stand in `reporting/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contract.allocation import Allocation
from contract.words.node import DevicesFrom
from contract.words.reasons import Refusal


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A Kubernetes event about this node."""

    reason: str
    message: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class Allocated:
    """A container was given slots."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A call of the kubelet was refused with a reason; the container asked for `size` slots."""

    refusal: Refusal
    size: int


@dataclass(frozen=True, slots=True)
class CallTook:
    """A call of the kubelet was answered."""

    call: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Registered:
    """The kubelet accepted a registration."""

    cause: str
    socket: str


@dataclass(frozen=True, slots=True)
class RegistrationLost:
    """The kubelet stopped listening, or never listened."""

    cause: str


@dataclass(frozen=True, slots=True)
class GpuRefused:
    """A GPU is not shared."""

    uuid: str
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class GpuUnhealthy:
    """A GPU is not given to containers for a time."""

    uuid: str
    why: str


@dataclass(frozen=True, slots=True)
class GpuRecovered:
    """A GPU is given to containers again."""

    uuid: str


@dataclass(frozen=True, slots=True)
class SchedulerSilent:
    """A container starts while no scheduler answers on its socket."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class DevicesFound:
    """Where the GPUs' device nodes and driver files come from was found out, or has changed."""

    source: DevicesFrom
    sentence: str


@dataclass(frozen=True, slots=True)
class DevicesRefused:
    """Containers of some GPU wait, because the node's CDI specs do not give it its devices."""

    sentence: str


@dataclass(frozen=True, slots=True)
class SpecWritten:
    """A start has written its CDI spec, and the runtime was waited for."""

    allocation: Allocation
    wait: str
    seconds: float


PluginEvent = (
    Allocated
    | CallRefused
    | CallTook
    | Registered
    | RegistrationLost
    | GpuRefused
    | GpuUnhealthy
    | GpuRecovered
    | SchedulerSilent
    | DevicesFound
    | DevicesRefused
    | SpecWritten
)
Tell = Callable[[PluginEvent], None]

_EVENTS: dict[type, Callable[[Any], NodeEvent]] = {
    CallRefused: lambda it: _of_refusal(it.refusal),
    GpuRefused: lambda it: _of_refusal(it.refusal),
    GpuUnhealthy: lambda it: NodeEvent(
        "GpuUnhealthy", f"GPU {it.uuid} gets no new containers: {it.why}.", is_warning=True
    ),
    GpuRecovered: lambda it: NodeEvent("GpuRecovered", f"GPU {it.uuid} gets new containers again.", is_warning=False),
    SchedulerSilent: lambda it: NodeEvent(
        "SchedulerNotAnswering",
        f"A container on {', '.join(it.allocation.uuids)} starts and waits: no nvshare-schedulerd answers here.",
        is_warning=True,
    ),
    DevicesRefused: lambda it: NodeEvent("GpuDevicesRefused", it.sentence, is_warning=True),
}


def _of_refusal(refusal: Refusal) -> NodeEvent:
    return NodeEvent(refusal.code, f"{refusal.cause} {refusal.remedy}", is_warning=True)


def node_event_of(event: PluginEvent) -> NodeEvent | None:
    """Return the event to show on the Node, or None where no operator needs it."""
    build = _EVENTS.get(type(event))
    return None if build is None else build(event)

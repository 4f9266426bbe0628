"""What happens in the plugin, as values: the parts say it once, whoever wants to know reads it off.

Owns the list of happenings, their line in the log and their event on the Node; metrics count them elsewhere.  Telling
never waits.  May import the contract's reasons, the allocation's and the event's types.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contract.allocation import Allocation
from contract.reasons import Refusal
from deviceplugin.reporting.event_queue import Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Allocated:
    """A container was given slots."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The kubelet was answered with a reason; the container asked for `size` slots."""

    refusal: Refusal
    size: int


@dataclass(frozen=True, slots=True)
class CallTook:
    """A call of the kubelet's was answered."""

    call: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Registered:
    """The kubelet took a registration."""

    cause: str
    socket: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The kubelet does not listen any more, or never did."""

    cause: str


@dataclass(frozen=True, slots=True)
class GpuRefused:
    """A GPU is not shared."""

    uuid: str
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class GpuUnhealthy:
    """A GPU is not given out for a time."""

    uuid: str
    why: str


@dataclass(frozen=True, slots=True)
class GpuRecovered:
    """A GPU is given out again."""

    uuid: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A container starts while no scheduler answers on its socket."""

    allocation: Allocation


Happening = (
    Allocated | CallRefused | CallTook | Registered | Lost | GpuRefused | GpuUnhealthy | GpuRecovered | Unanswered
)
Tell = Callable[[Happening], None]

_LINES: dict[type, tuple[int, Callable[[Any], str]]] = {
    Allocated: (logging.INFO, lambda it: f"allocated {it.allocation.key}: {' '.join(it.allocation.device_ids)}"),
    CallRefused: (logging.WARNING, lambda it: f"refused a container of {it.size}: {it.refusal}"),
    CallTook: (logging.DEBUG, lambda it: f"{it.call} took {it.seconds * 1000:.2f} ms"),
    Registered: (logging.INFO, lambda it: f"registered on {it.socket} ({it.cause})"),
    Lost: (logging.WARNING, lambda it: f"the kubelet must be told again: {it.cause}"),
    GpuRefused: (logging.WARNING, lambda it: f"not shared: {it.refusal}"),
    GpuUnhealthy: (logging.WARNING, lambda it: f"GPU {it.uuid} is not given out: {it.why}"),
    GpuRecovered: (logging.INFO, lambda it: f"GPU {it.uuid} is given out again"),
    Unanswered: (
        logging.WARNING,
        lambda it: f"no scheduler answers for allocation {it.allocation.key}: its container waits for one",
    ),
}
_EVENTS: dict[type, Callable[[Any], Event]] = {
    CallRefused: lambda it: _of_refusal(it.refusal),
    GpuRefused: lambda it: _of_refusal(it.refusal),
    GpuUnhealthy: lambda it: Event("GpuUnhealthy", f"GPU {it.uuid} is not given out: {it.why}.", is_warning=True),
    GpuRecovered: lambda it: Event("GpuRecovered", f"GPU {it.uuid} is given out again.", is_warning=False),
    Unanswered: lambda it: Event(
        "SchedulerNotAnswering",
        f"A container on {', '.join(it.allocation.uuids)} starts, and waits: no nvshare-schedulerd answers here.",
        is_warning=True,
    ),
}


def _of_refusal(refusal: Refusal) -> Event:
    return Event(refusal.code, f"{refusal.cause} {refusal.remedy}", is_warning=True)


def write_log(happening: Happening) -> None:
    """Its line."""
    level, line = _LINES[type(happening)]
    if log.isEnabledFor(level):
        log.log(level, "%s", line(happening))


def event_of(happening: Happening) -> Event | None:
    """Its event on the Node; None for what concerns no operator."""
    build = _EVENTS.get(type(happening))
    return None if build is None else build(happening)

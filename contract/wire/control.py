"""The control socket's requests, as types: the operator's and the observer's, and what the observer is told.

A request is one line.  It is answered by lines that end with `end`, `ok` or `error`.  The observer's requests and what
it is told are not answered.  Answers to `status` and `load` are in `contract.wire.status` and `contract.wire.load`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contract.errors import BadLine, BadValue
from contract.wire.form import COUNT, FLAG, NAME, NAMES, NUMBER, TEXT, WHOLE, Form, Kind, count_between
from contract.wire.line import Line, encode
from contract.words import limits
from contract.words.grammar import AllocationKind, Mode, read_quantum_ms
from contract.words.quantity import parse_quantity

_QUANTUM_FORM = "auto, or a duration from 1ms to 3600s, such as 30s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What NVML says of a card; None where it does not say."""

    memory_total: int | None = None
    memory_used: int | None = None
    temperature: int | None = None
    power: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the cluster says of an allocation; a field is None or empty where it says nothing."""

    uid: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    mode: Mode | None = None
    weight: int | None = None
    priority: int | None = None
    quantum_ms: int | None = None
    memory: int | None = None
    allocation: AllocationKind | None = None


# ---------------------------------------------------------------------- from anybody who may ask


@dataclass(frozen=True, slots=True)
class AskStatus:
    """Tell everything."""


@dataclass(frozen=True, slots=True)
class AskLoad:
    """Tell each GPU's load."""


@dataclass(frozen=True, slots=True)
class AskHealth:
    """Answer at all: that proves that the turn loop runs."""


@dataclass(frozen=True, slots=True)
class AskReadiness:
    """Say whether the observer is there too."""


# ---------------------------------------------------------------------- from the operator


@dataclass(frozen=True, slots=True)
class SetQuantum:
    """Fix how long a turn lasts, on one GPU or on all; None adapts it again."""

    time: int | None
    """Milliseconds."""
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Choose who goes first."""

    name: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Place nothing new on a GPU; with `now`, the containers that have it get no turn either."""

    gpu: str
    now: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Grant nothing on one GPU, or on any."""

    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """End the pause and the drain of one GPU, or of all."""

    gpu: str | None = None


# ---------------------------------------------------------------------- from the observer


@dataclass(frozen=True, slots=True)
class Observe:
    """From now on this connection is an observer's."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The observer runs."""


@dataclass(frozen=True, slots=True)
class CardReport:
    """What NVML says of one card now."""

    gpu: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class PodReport:
    """What the cluster says of one allocation."""

    key: str
    facts: PodFacts


# ---------------------------------------------------------------------- to the observer


@dataclass(frozen=True, slots=True)
class Who:
    """Tell what the cluster says of an allocation; `uid` is the pod that one of its processes was seen in."""

    key: str
    devices: tuple[str, ...]
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Forget:
    """An allocation has gone."""

    key: str


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that the cluster should hear of, about one container."""

    kind: str
    """`overdue`, `jam` or `above-cap`."""
    key: str
    gpus: tuple[str, ...]


OperatorRequest = SetQuantum | SetPolicy | Drain | Pause | Resume
ObserverRequest = Observe | Beat | CardReport | PodReport
Request = AskStatus | AskLoad | AskHealth | AskReadiness | OperatorRequest | ObserverRequest
ToObserver = Who | Forget | Happened


def read_quantum(text: str) -> int | None:
    """Return the milliseconds of a turn; None for `auto`."""
    try:
        return None if text == "auto" else read_quantum_ms(text)
    except ValueError:
        raise BadValue(f"{text[:40]!r} is no turn: it must be {_QUANTUM_FORM}") from None


def _write_quantum(milliseconds: int) -> str:
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


class _QuantumForm(Form[SetQuantum]):
    """Of all fields only this one says something by None: `auto`."""

    def write(self, value: SetQuantum) -> Line:
        line = super().write(value)
        return Line(line.verb, {"time": "auto", **line.words})


_GPU = {"gpu": NAME}
_QUANTUM: Kind[Any] = Kind(_QUANTUM_FORM, read_quantum, _write_quantum)
_FIGURES = Form(
    "figures",
    Figures,
    {
        "memory_total": COUNT,
        "memory_used": COUNT,
        "temperature": WHOLE,
        "power": Kind(NUMBER.allowed, NUMBER.read),
        "utilization": Kind(NUMBER.allowed, NUMBER.read),
    },
)
_POD_FACTS = Form(
    "pod",
    PodFacts,
    {
        "uid": TEXT,
        "namespace": TEXT,
        "pod": TEXT,
        "container": TEXT,
        "mode": Kind(" or ".join(Mode), Mode),
        "weight": count_between(1, limits.LARGEST_WEIGHT),
        "priority": WHOLE,
        "quantum_ms": count_between(limits.SHORTEST_QUANTUM_MS, limits.LONGEST_QUANTUM_MS),
        "memory": count_between(1, parse_quantity(limits.LARGEST_MEMORY).numerator),
        "allocation": Kind(" or ".join(AllocationKind), AllocationKind),
    },
)
_REQUESTS: dict[type, Form[Any]] = {
    AskStatus: Form("status", AskStatus, {}),
    AskLoad: Form("load", AskLoad, {}),
    AskHealth: Form("healthz", AskHealth, {}),
    AskReadiness: Form("readyz", AskReadiness, {}),
    SetQuantum: _QuantumForm("quantum", SetQuantum, {"time": _QUANTUM, **_GPU}, needs=("time",)),
    SetPolicy: Form("policy", SetPolicy, {"name": NAME}, needs=("name",)),
    Drain: Form("drain", Drain, {"gpu": NAME, "now": FLAG}, needs=("gpu",)),
    Pause: Form("pause", Pause, _GPU),
    Resume: Form("resume", Resume, _GPU),
    Observe: Form("observe", Observe, {}),
    Beat: Form("beat", Beat, {}),
    CardReport: Form("figures", CardReport, {"gpu": NAME, "figures": _FIGURES}, needs=("gpu",)),
    PodReport: Form("pod", PodReport, {"key": NAME, "facts": _POD_FACTS}, needs=("key",)),
}
_TO_OBSERVER: dict[type, Form[Any]] = {
    Who: Form("who", Who, {"key": NAME, "devices": NAMES, "uid": TEXT}, needs=("key", "devices")),
    Forget: Form("forget", Forget, {"key": NAME}, needs=("key",)),
    Happened: Form("notice", Happened, {"kind": NAME, "key": NAME, "gpus": NAMES}, needs=("kind", "key", "gpus")),
}
_REQUEST_VERBS = {form.verb: form for form in _REQUESTS.values()}
_TO_OBSERVER_VERBS = {form.verb: form for form in _TO_OBSERVER.values()}


def encode_request(request: Request) -> bytes:
    """Return a request's line."""
    return encode(_REQUESTS[type(request)].write(request))


def decode_request(line: Line) -> Request:
    """Return the request that a line makes; an unknown verb is an error that lists the known ones."""
    request: Request = _read(line, _REQUEST_VERBS)
    return request


def encode_to_observer(said: ToObserver) -> bytes:
    """Return a line that the turn process tells its observer."""
    return encode(_TO_OBSERVER[type(said)].write(said))


def decode_to_observer(line: Line) -> ToObserver:
    """Return what the turn process tells its observer."""
    said: ToObserver = _read(line, _TO_OBSERVER_VERBS)
    return said


def _read(line: Line, forms: Mapping[str, Form[Any]]) -> Any:
    form = forms.get(line.verb)
    if form is None:
        raise BadLine(f"there is no request {line.verb}; there are {', '.join(forms)}")
    return form.read(line)

"""What each request of the control socket does: a table from the request's type to what answers it.

The rule it owns: a request that cannot be carried out is `NotPossible`, with a sentence.  Any other exception is a
fault of the daemon, and goes to the caller.
"""

from collections.abc import Callable, Iterator
from typing import Any

from contract.wire.control import (
    AskHealth,
    AskLoad,
    AskReadiness,
    AskStatus,
    Beat,
    CardReport,
    Drain,
    Observe,
    OperatorRequest,
    Pause,
    PodFacts,
    PodReport,
    Request,
    Resume,
    SetPolicy,
    SetQuantum,
)
from contract.wire.line import Line, encode
from schedulerd.control.status import list_gpus, write_load, write_status
from schedulerd.core import card_size, operator
from schedulerd.core.model import Gpu
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.errors import SchedulerError
from schedulerd.policies import POLICIES, Seconds

_OK = encode(Line("ok"))
_SHOWN = 64
"""Characters of a wrong name that an error repeats."""


class NotPossible(SchedulerError):
    """A request that cannot be carried out; the sentence says why, and what can."""


def _ignore(*_: object) -> None:
    """Do nothing: nobody wants to hear."""


class Requests:
    """The requests, and the state that they read and change."""

    def __init__(
        self,
        turns: Turns,
        node: Node,
        clock: Callable[[], Seconds],
        *,
        on_steered: Callable[[], None] = _ignore,
        on_pod: Callable[[str, PodFacts], None] = _ignore,
        on_observer: Callable[[], None] = _ignore,
    ) -> None:
        self.node, self.clock = node, clock
        self._turns = turns
        self._on_steered = on_steered
        self._on_pod = on_pod
        self._on_observer = on_observer
        self._table: dict[type, Callable[[Any], Iterator[bytes] | None]] = {
            AskStatus: lambda _request: write_status(turns, node, clock()),
            AskLoad: lambda _request: iter((write_load(turns, node, clock()),)),
            AskHealth: lambda _request: iter((_OK,)),
            AskReadiness: self._answer_readiness,
            SetQuantum: self._set_quantum,
            SetPolicy: self._set_policy,
            Drain: self._drain,
            Pause: self._pause,
            Resume: self._resume,
            Observe: lambda _request: self._on_observer(),
            Beat: _ignore,
            CardReport: self._hear_of_card,
            PodReport: self._hear_of_pod,
        }

    def answer(self, request: Request) -> Iterator[bytes]:
        """Carry out a request; return the lines of its answer."""
        answer = self._table[type(request)](request)
        if isinstance(request, OperatorRequest):
            self._on_steered()
            return iter((_OK,))
        return iter(()) if answer is None else answer

    def _answer_readiness(self, _request: AskReadiness) -> Iterator[bytes]:
        if reason := self.node.why_not_ready(self.clock()):
            raise NotPossible(reason)
        return iter((_OK,))

    # ------------------------------------------------------------------ from the operator

    def _set_quantum(self, request: SetQuantum) -> None:
        seconds = None if request.time is None else request.time / 1000
        gpus = None if request.gpu is None else self._gpus(request.gpu)
        operator.set_quantum(self._turns, gpus, seconds, self.clock())

    def _set_policy(self, request: SetPolicy) -> None:
        policy = POLICIES.get(request.name)
        if policy is None:
            raise NotPossible(f"{request.name[:_SHOWN]!r} is no policy: there are {', '.join(POLICIES)}")
        operator.set_policy(self._turns, policy, self.clock())

    def _drain(self, request: Drain) -> None:
        operator.drain(self._turns, self._gpus(request.gpu), self.clock(), at_once=request.now)

    def _pause(self, request: Pause) -> None:
        operator.pause(self._turns, self._gpus(request.gpu), self.clock())

    def _resume(self, request: Resume) -> None:
        operator.resume(self._turns, self._gpus(request.gpu), self.clock())

    def _gpus(self, name: str | None) -> list[Gpu]:
        """Return the GPU of that name, or all; also those that NVML has lost, which may be back any moment."""
        known = self._turns.grants.gpus
        if name is None:
            return list(known.values())
        found = known.get(name)
        if found is None:
            there = list_gpus(self._turns, self.node, self.clock())
            names = ", ".join(gpu.uuid for gpu in there) or "none yet"
            raise NotPossible(f"{name[:_SHOWN]} is not a GPU of this node; there are: {names}")
        return [found]

    # ------------------------------------------------------------------ from the observer

    def _hear_of_card(self, report: CardReport) -> None:
        now = self.clock()
        self.node.hear(report.gpu, report.figures, now)
        card_size.hear_nvml(self._turns, self._turns.add_gpu(report.gpu), report.figures.memory_total, now)

    def _hear_of_pod(self, report: PodReport) -> None:
        self._on_pod(report.key, report.facts)

"""The root-only socket: what an operator asks for, what the observer reports, and the load query.

A request is a line, an answer lines that end with `end`, `ok` or `error`.  Owns the table of requests; what they do is
steering, what they show are views.  A long answer goes out in helpings between other people's turns.
"""

import logging
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from contract.errors import BadLine, BadQuantity
from contract.grammar import AllocationKind, Mode, read_quantum_ms
from contract.line import LONGEST, Line, decode, encode
from schedulerd.control import status
from schedulerd.core import operator
from schedulerd.core.model import Gpu, Notice
from schedulerd.core.node_state import Figures, Node, PodFacts
from schedulerd.core.turns import Turns
from schedulerd.errors import SchedulerError
from schedulerd.eventloop.acceptor import Acceptor
from schedulerd.eventloop.connection import Broken, Connection
from schedulerd.eventloop.loop import Loop
from schedulerd.policies import POLICIES, Seconds
from schedulerd.protocol.budget import NO_LIMITS, Budget

log = logging.getLogger(__name__)

_HELPING = 16
"""Lines of a long answer at once."""
_MAX_REQUESTS = 64
"""Answers that may be outstanding on one connection."""
OK = encode(Line("ok"))
Words = Mapping[str, str]
T = TypeVar("T")


class NotPossible(SchedulerError):
    """A request that cannot be carried out; the sentence says why, and what can."""


class Requests:
    """What can be asked: one method a verb, its answer an iterator of lines."""

    def __init__(self, turns: Turns, node: Node, clock: Callable[[], Seconds]) -> None:
        self.turns, self.node, self.clock = turns, node, clock
        self.on_pod: Callable[[str, PodFacts], None] = lambda _key, _facts: None
        self.on_steered: Callable[[], None] = lambda: None
        self.table: dict[str, Callable[[Words], Iterator[bytes]]] = {
            "load": self._load,
            "status": self._status,
            "quantum": self._quantum,
            "policy": self._policy,
            "drain": self._drain,
            "pause": self._pause,
            "resume": self._resume,
            "figures": self._figures,
            "pod": self._pod,
            "beat": lambda _words: iter(()),
            "healthz": self._healthz,
            "readyz": self._readyz,
        }
        self.steers = ("quantum", "policy", "drain", "pause", "resume")

    def answer(self, line: Line) -> Iterator[bytes]:
        """The answer's lines; a request that cannot be is answered with a sentence."""
        handler = self.table.get(line.verb)
        if handler is None:
            return _error(f"there is no request {line.verb}; there are {', '.join(self.table)}")
        try:
            answer = handler(line.words)
        except NotPossible as error:
            return _error(str(error))
        if line.verb in self.steers:
            self.on_steered()
        return answer

    def _load(self, _words: Words) -> Iterator[bytes]:
        yield status.load(self.turns, self.node, self.clock())

    def _status(self, _words: Words) -> Iterator[bytes]:
        return status.status(self.turns, self.node, self.clock())

    def _healthz(self, _words: Words) -> Iterator[bytes]:
        """Answer a liveness probe: an answer in time is the proof, whatever the observer does."""
        return iter((OK,))

    def _readyz(self, _words: Words) -> Iterator[bytes]:
        if reason := self.node.why_not_ready(self.clock()):
            raise NotPossible(reason)
        return iter((OK,))

    def _quantum(self, words: Words) -> Iterator[bytes]:
        text = words.get("time", "")
        try:
            seconds = None if text == "auto" else read_quantum_ms(text) / 1000
        except ValueError:
            raise NotPossible(f"{text[:40]!r} is no turn: it must be auto, or from 1ms to 3600s, such as 30s") from None
        gpus = self._gpus(words) if "gpu" in words else None
        operator.set_quantum(self.turns, gpus, seconds, self.clock())
        return iter((OK,))

    def _policy(self, words: Words) -> Iterator[bytes]:
        policy = POLICIES.get(words.get("name", ""))
        if policy is None:
            raise NotPossible(f"{words.get('name', '')[:40]!r} is no policy: there are {', '.join(POLICIES)}")
        operator.set_policy(self.turns, policy, self.clock())
        return iter((OK,))

    def _drain(self, words: Words) -> Iterator[bytes]:
        if "gpu" not in words:
            raise NotPossible("name the GPU to drain")
        operator.drain(self.turns, self._gpus(words), self.clock(), at_once=words.get("now") == "1")
        return iter((OK,))

    def _pause(self, words: Words) -> Iterator[bytes]:
        operator.pause(self.turns, self._gpus(words), self.clock())
        return iter((OK,))

    def _resume(self, words: Words) -> Iterator[bytes]:
        operator.resume(self.turns, self._gpus(words), self.clock())
        return iter((OK,))

    def _gpus(self, words: Words) -> list[Gpu]:
        """The GPU that is named, or all; those too that NVML has lost: they may be back any moment."""
        known = self.turns.grants.gpus
        if "gpu" not in words:
            return list(known.values())
        found = known.get(words["gpu"])
        if found is None:
            there = status.every_gpu(self.turns, self.node, self.clock())
            names = ", ".join(gpu.uuid for gpu in there) or "none yet"
            raise NotPossible(f"{words['gpu'][:64]} is not a GPU of this node; there are: {names}")
        return [found]

    # ------------------------------------------------------------------ from the observer

    def _figures(self, words: Words) -> Iterator[bytes]:
        figures = Figures(
            memory_total=_maybe(words, "memory_total", int),
            memory_used=_maybe(words, "memory_used", int),
            temperature=_maybe(words, "temperature", int),
            power=_maybe(words, "power", float),
            utilization=_maybe(words, "utilization", float),
        )
        now = self.clock()
        self.node.hear(words["gpu"], figures, now)
        operator.set_capacity(self.turns, self.turns.gpu(words["gpu"]), figures.memory_total, now)
        return iter(())

    def _pod(self, words: Words) -> Iterator[bytes]:
        facts = PodFacts(
            uid=words.get("uid", ""),
            namespace=words.get("namespace", ""),
            pod=words.get("pod", ""),
            container=words.get("container", ""),
            mode=_maybe(words, "mode", Mode),
            weight=_maybe(words, "weight", int),
            priority=_maybe(words, "priority", int),
            quantum_ms=_maybe(words, "quantum_ms", int),
            memory=_maybe(words, "memory", int),
            allocation=_maybe(words, "allocation", AllocationKind),
        )
        self.on_pod(words["key"], facts)
        return iter(())


def _maybe(words: Words, key: str, reader: Callable[[str], T]) -> T | None:
    return reader(words[key]) if key in words else None


def _error(sentence: str) -> Iterator[bytes]:
    return iter((encode(Line("error", {"message": sentence[:1000]})),))


class Asker:
    """A connection of somebody who may ask."""

    def __init__(self, connection: Connection, who: str) -> None:
        self.connection = connection
        self.who = who
        self.observes = False
        self.answers: deque[Iterator[bytes]] = deque()
        self.rest = b""


class Control:
    """The control socket's connections."""

    def __init__(self, loop: Loop, requests: Requests) -> None:
        self.loop = loop
        self.requests = requests
        self.askers: dict[int, Asker] = {}
        self.on_observer: Callable[[], None] = lambda: None
        self._own_uid = os.geteuid()
        self._acceptor = Acceptor()

    def listen(self, listener: socket.socket) -> None:
        """Accept askers from a listening socket."""
        listener.setblocking(False)
        self.loop.watch(listener.fileno(), lambda _mask: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        accepted = self._acceptor.next(listener)
        if accepted is None:
            return
        connection = Connection(accepted.fileno(), accepted, self.loop, "", Budget(NO_LIMITS))
        pid, uid = connection.peer()
        self.loop.watch(connection.descriptor, lambda _mask: self._ready(asker))
        asker = Asker(connection, f"uid {uid} pid {pid}")
        self.askers[connection.client] = asker
        if uid not in (0, self._own_uid):
            log.warning("%s is not root: turned away from the control socket", asker.who)
            self._drop(asker)

    def _ready(self, asker: Asker) -> None:
        try:
            data = asker.connection.receive()
            if data is not None:
                self._received(asker, data)
            self._pump(asker)
        except (Broken, BadLine) as error:
            log.debug("%s has left the control socket: %s", asker.who, error)
            self._drop(asker)

    def _received(self, asker: Asker, data: bytes) -> None:
        *lines, asker.rest = (asker.rest + data).split(b"\n")
        if len(asker.rest) > LONGEST or len(asker.answers) + len(lines) > _MAX_REQUESTS:
            raise Broken("it asks for more than anybody can read")
        for raw in lines:
            self._request(asker, decode(raw))

    def _request(self, asker: Asker, line: Line) -> None:
        if line.verb == "observe":
            asker.observes = True
            self.on_observer()
        if asker.observes:
            self.requests.node.observer_spoke_at = self.loop.clock()
        if line.verb == "observe":
            return
        if line.verb in self.requests.steers:
            log.info("%s: %s", asker.who, encode(line).decode().strip())
        try:
            asker.answers.append(self.requests.answer(line))
        except (KeyError, ValueError, BadQuantity) as error:
            asker.answers.append(_error(f"a {line.verb} request cannot be read: {error}"))

    def _pump(self, asker: Asker) -> None:
        """One helping; the rest follows when the others have had theirs."""
        connection = asker.connection
        while asker.answers and connection.drained:
            helping = b"".join(islice(asker.answers[0], _HELPING))
            if helping:
                connection.send(helping)
                break
            asker.answers.popleft()
        if asker.answers and connection.drained:
            self.loop.change(connection.descriptor, select.EPOLLIN | select.EPOLLOUT)
        elif connection.drained:
            self.loop.change(connection.descriptor, select.EPOLLIN)

    def _drop(self, asker: Asker) -> None:
        if self.askers.pop(asker.connection.client, None) is not None:
            asker.connection.close()

    # ------------------------------------------------------------------ to the observer

    def tell_observers(self, line: Line) -> int:
        """Send a line to whoever observes; how many did."""
        data = encode(line)
        told = 0
        for asker in [one for one in self.askers.values() if one.observes]:
            try:
                asker.connection.send(data)
                told += 1
            except Broken as error:
                log.warning("the observer is gone: %s", error)
                self._drop(asker)
        return told

    def tell_notice(self, notice: Notice) -> None:
        """Something happened that the cluster should hear of."""
        log.warning("%s: %s on %s", notice.kind, ", ".join(notice.containers), ", ".join(notice.gpus))
        for container in notice.containers:
            self.tell_observers(Line("notice", {"kind": notice.kind, "key": container, "gpus": ",".join(notice.gpus)}))

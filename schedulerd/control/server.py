"""The root-only control socket: connections in, requests read, answers out.

The rule it owns: whatever a request or a view does, it costs its asker an `error` line and nobody a turn.  A long
answer goes out in parts between other people's turns.
"""

import logging
import os
import select
import socket
from collections.abc import Iterator
from itertools import islice

from contract.errors import BadLine
from contract.wire.control import Observe, OperatorRequest, Request, decode_request, encode_request
from contract.wire.line import LONGEST, Line, decode, encode
from schedulerd.control.observers import Asker, Observers
from schedulerd.control.requests import NotPossible, Requests
from schedulerd.eventloop.acceptor import Acceptor
from schedulerd.eventloop.connection import Broken, Connection
from schedulerd.eventloop.loop import Loop
from schedulerd.protocol.budget import NO_LIMITS, Budget

log = logging.getLogger(__name__)

_LINES_AT_ONCE = 16
"""Of a long answer; the rest follows when other connections have been served."""
_MAX_REQUESTS = 64
"""Answers that may be outstanding on one connection."""
_LONGEST_SENTENCE = 1000
_LOGGED = "a fault of ours in the answer to %s; turns go on"
_FAULT = "this request failed in the scheduler; its log says where. Turns go on"


class Control:
    """The control socket's connections."""

    def __init__(self, loop: Loop, requests: Requests, observers: Observers) -> None:
        self._loop = loop
        self._requests = requests
        self._observers = observers
        self._own_uid = os.geteuid()
        self._acceptor = Acceptor()

    def listen(self, listener: socket.socket) -> None:
        """Accept connections from a listening socket."""
        listener.setblocking(False)
        self._loop.watch(listener.fileno(), lambda _mask: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        accepted = self._acceptor.next(listener)
        if accepted is None:
            return
        connection = Connection(accepted.fileno(), accepted, self._loop, "", Budget(NO_LIMITS))
        pid, uid = connection.peer()
        asker = Asker(connection, f"uid {uid} pid {pid}")
        self._loop.watch(connection.descriptor, lambda _mask: self._ready(asker))
        if uid not in (0, self._own_uid):
            log.warning("%s is not root: turned away from the control socket", asker.name)
            asker.close()

    def _ready(self, asker: Asker) -> None:
        try:
            data = asker.connection.receive()
            if data is not None:
                self._received(asker, data)
            self._send_some(asker)
        except (Broken, BadLine) as error:
            log.debug("%s has left the control socket: %s", asker.name, error)
            asker.close()

    def _received(self, asker: Asker, data: bytes) -> None:
        *lines, asker.rest = (asker.rest + data).split(b"\n")
        if len(asker.rest) > LONGEST or len(asker.answers) + len(lines) > _MAX_REQUESTS:
            raise Broken("it asks for more than anybody can read")
        for raw in lines:
            asker.answers.append(self._answer(asker, decode(raw)))

    def _answer(self, asker: Asker, line: Line) -> Iterator[bytes]:
        """Carry out one request, and return its answer; a fault of ours becomes an `error` line."""
        try:
            request = decode_request(line)
        except BadLine as error:
            return _error(str(error))
        try:
            return _without_faults(line.verb, self._carry_out(asker, request))
        except NotPossible as error:
            return _error(str(error))
        except Exception:
            log.exception(_LOGGED, line.verb)
            return _error(_FAULT)

    def _carry_out(self, asker: Asker, request: Request) -> Iterator[bytes]:
        if isinstance(request, Observe):
            self._observers.add(asker)
        if asker.observes:
            self._requests.node.observer_spoke_at = self._requests.clock()
        if isinstance(request, OperatorRequest):
            log.info("%s: %s", asker.name, encode_request(request).decode().strip())
        return self._requests.answer(request)

    def _send_some(self, asker: Asker) -> None:
        """Send a part of the first answer; the rest follows when others have been served."""
        connection = asker.connection
        while asker.answers and connection.drained:
            part = b"".join(islice(asker.answers[0], _LINES_AT_ONCE))
            if part:
                connection.send(part)
                break
            asker.answers.popleft()
        if asker.answers and connection.drained:
            self._loop.change(connection.descriptor, select.EPOLLIN | select.EPOLLOUT)
        elif connection.drained:
            self._loop.change(connection.descriptor, select.EPOLLIN)


def _without_faults(verb: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines; where a view raises, end the answer by an `error` line."""
    try:
        yield from lines
    except Exception:
        log.exception(_LOGGED, verb)
        yield from _error(_FAULT)


def _error(sentence: str) -> Iterator[bytes]:
    return iter((encode(Line("error", {"message": sentence[:_LONGEST_SENTENCE]})),))

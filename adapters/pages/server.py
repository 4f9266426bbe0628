"""Serve pages over HTTP to clients that may be hostile: strangers reach the port of metrics where no policy stops them.

Owns which clients keep a place.  The number of places is fixed.  When all are taken, a newcomer displaces the oldest
client that keeps us waiting, once that client has had its fair moment.  So silent connections, however many, cost their
own places only: an honest client sends its request at once, mostly while it still waits in the kernel's queue.

One thread does all of a server's I/O; pages are made in other threads.
"""

import contextlib
import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from adapters.pages.renderer import Page, Renderer
from adapters.pages.request import (
    Answer,
    Refused,
    Request,
    encode_answer,
    has_head,
    read_request,
    sentence_answer,
)

log = logging.getLogger(__name__)

Seconds = float
_ACCEPTED_AT_ONCE = 1 / 8
"""A share of all places.  Between two such rounds, clients that have sent a request are served."""
_SWEEP_EVERY: Seconds = 0.25
_READ_BYTES = 4096
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much clients may use."""

    places: int = 256
    """Connections at a time."""
    safe: Seconds = 0.25
    """A client keeps its place for so long at least.

    So silent clients come at `places / safe` a second at most, 1,024: a flood costs its victim few per cent of a
    processor, which on a busy node the turns and the probes of the same container need."""
    request: Seconds = 5.0
    """Until the head of a request has come."""
    page: Seconds = 10.0
    """Until its page is made."""
    answer: Seconds = 10.0
    """Until the client has taken its answer."""
    goodbye: Seconds = 1.0
    """Until the client has closed its side: to close before it has read would destroy the answer."""


class _Stage(Enum):
    REQUEST = auto()
    PAGE = auto()
    ANSWER = auto()
    GOODBYE = auto()


_GO_FIRST = ({_Stage.REQUEST, _Stage.GOODBYE}, {_Stage.ANSWER})
"""Which clients may be displaced: first the silent ones, then those that take an answer."""


class _Client:
    """One connection, and what it waits for."""

    def __init__(self, connection: socket.socket, now: Seconds, limits: Limits) -> None:
        self.connection = connection
        self.stage = _Stage.REQUEST
        self.is_safe_until = now + limits.safe
        self.ends_at = now + limits.request
        self.received = bytearray()
        self.request = Request("", "")
        self.left = memoryview(b"")


class Server:
    """Pages on one listening socket; they are served from `start` to `close`."""

    def __init__(
        self,
        listener: socket.socket,
        pages: Mapping[str, Page],
        *,
        limits: Limits | None = None,
        clock: Callable[[], Seconds] = time.monotonic,
    ) -> None:
        self._listener, self._pages, self._clock = listener, pages, clock
        self._limits = limits or Limits()
        self._clients: dict[_Client, None] = {}
        """In the order in which they came."""
        self._renderers: dict[str, Renderer[_Client]] = {}
        self._made: list[tuple[list[_Client], Answer]] = []
        """Appended to by the renderers, emptied by the server's thread."""
        self._sweep_at: Seconds = 0.0
        self._paused_until: Seconds = 0.0
        """0 while newcomers are accepted."""
        self._stopping = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        for each in (self._listener, self._wake_reader, self._wake_writer):
            each.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._take_made)
        self._renderers = {path: Renderer(path, page, self._hand_over) for path, page in self._pages.items()}
        self._thread.start()

    def close(self) -> None:
        """Serve no more; the port is free afterwards."""
        self._stopping.set()
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # it is full: awake already; or closed
            self._wake_writer.send(b"!")

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for key, mask in self._selector.select(self._longest_sleep()):
                    self._attend(key.data, mask)
                self._sweep()
                self._resume_when_due()
        finally:
            self._release()

    def _longest_sleep(self) -> Seconds | None:
        if self._paused_until:
            return min(_SWEEP_EVERY, max(0.0, self._paused_until - self._clock()))
        return _SWEEP_EVERY if self._clients else None

    def _attend(self, client: "_Client | Callable[[], None]", mask: int) -> None:
        if not isinstance(client, _Client):
            client()
        elif client in self._clients:  # another one's arrival may have displaced it in this very round
            try:
                self._serve(client, mask)
            except OSError as error:
                log.debug("a client broke off: %s", error)
                self._drop(client)

    def _release(self) -> None:
        for renderer in self._renderers.values():
            renderer.end()
        for client in tuple(self._clients):
            self._drop(client)
        self._selector.close()
        for each in (self._listener, self._wake_reader, self._wake_writer):
            each.close()

    def _sweep(self) -> None:
        """End the clients whose time is over."""
        now = self._clock()
        if now < self._sweep_at:
            return
        self._sweep_at = now + _SWEEP_EVERY
        for client in [one for one in self._clients if now >= one.ends_at]:
            if client.stage is _Stage.PAGE:
                self._answer(client, sentence_answer(503, "This page takes too long to make: see the log."))
            else:
                self._drop(client)

    # ------------------------------------------------------------------ which clients have a place

    def _accept(self) -> None:
        for _ in range(max(1, int(self._limits.places * _ACCEPTED_AT_ONCE))):
            if not self._make_room():
                return
            try:
                connection, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._cannot_accept(error)
                return
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        client = _Client(connection, self._clock(), self._limits)
        self._clients[client] = None
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _make_room(self) -> bool:
        """Make room for a newcomer; false where it has to wait in the kernel's queue."""
        if self._has_free_place():
            return True
        now, oldest = self._clock(), self._oldest_that_may_go()
        if oldest is None or now < oldest.is_safe_until:
            self._pause(now + _SWEEP_EVERY if oldest is None else oldest.is_safe_until)
            return False
        self._drop(oldest)
        return True

    def _oldest_that_may_go(self) -> _Client | None:
        """Return the oldest silent client, else the oldest that takes its answer; never one that waits for us."""
        for stages in _GO_FIRST:
            oldest = next((client for client in self._clients if client.stage in stages), None)
            if oldest is not None:
                return oldest
        return None

    def _cannot_accept(self, error: OSError) -> None:
        """Let a client go where descriptors have run out, and try again a little later."""
        log.debug("cannot accept: %s", error)
        oldest = self._oldest_that_may_go()
        if error.errno in _NO_DESCRIPTORS and oldest is not None:
            self._drop(oldest)
        self._pause(self._clock() + _SWEEP_EVERY)

    def _pause(self, until: Seconds) -> None:
        """Leave newcomers in the kernel's queue: a request that they send meanwhile is there when they are accepted."""
        self._selector.unregister(self._listener)
        self._paused_until = until

    def _resume_when_due(self) -> None:
        if self._paused_until and (self._has_free_place() or self._clock() >= self._paused_until):
            self._paused_until = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _has_free_place(self) -> bool:
        return len(self._clients) < self._limits.places

    def _drop(self, client: _Client) -> None:
        del self._clients[client]
        if client.stage is _Stage.PAGE:
            self._renderers[client.request.path].forget(client)
        else:
            self._selector.unregister(client.connection)
        client.connection.close()

    # ------------------------------------------------------------------ one client

    def _serve(self, client: _Client, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._write(client)
            return
        received = client.connection.recv(_READ_BYTES)
        if not received:
            self._drop(client)
        elif client.stage is _Stage.REQUEST:
            client.received += received
            self._read(client)

    def _read(self, client: _Client) -> None:
        try:
            if not has_head(client.received):
                return
            client.request = read_request(bytes(client.received), self._pages)
        except Refused as refused:
            self._answer(client, refused.answer)
        else:
            self._await_page(client)

    def _await_page(self, client: _Client) -> None:
        """Let a renderer work; nothing that the client does meanwhile is looked at."""
        self._selector.unregister(client.connection)
        client.stage, client.ends_at = _Stage.PAGE, self._clock() + self._limits.page
        self._renderers[client.request.path].ask(client, client.request.accept)

    def _hand_over(self, clients: list[_Client], answer: Answer) -> None:
        """Take pages from a renderer, in the renderer's thread."""
        self._made.append((clients, answer))
        self._wake()

    def _take_made(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_reader.recv(_READ_BYTES)
        while self._made:
            clients, answer = self._made.pop(0)
            encoded = {with_body: encode_answer(answer, with_body=with_body) for with_body in (True, False)}
            for client in clients:
                if client in self._clients and client.stage is _Stage.PAGE:
                    self._begin_answer(client, encoded[client.request.with_body])

    def _answer(self, client: _Client, answer: Answer) -> None:
        self._begin_answer(client, encode_answer(answer, with_body=client.request.with_body))

    def _begin_answer(self, client: _Client, encoded: bytes) -> None:
        if client.stage is _Stage.PAGE:
            self._renderers[client.request.path].forget(client)
            self._selector.register(client.connection, selectors.EVENT_WRITE, client)
        else:
            self._selector.modify(client.connection, selectors.EVENT_WRITE, client)
        client.stage, client.left = _Stage.ANSWER, memoryview(encoded)
        client.ends_at = self._clock() + self._limits.answer

    def _write(self, client: _Client) -> None:
        client.left = client.left[client.connection.send(client.left) :]
        if client.left:
            return
        client.connection.shutdown(socket.SHUT_WR)
        client.stage, client.ends_at = _Stage.GOODBYE, self._clock() + self._limits.goodbye
        self._selector.modify(client.connection, selectors.EVENT_READ, client)

"""gunicorn's gevent worker, hardened for the API server and for hostile clients of a TLS port.

It owns the deadline of the handshake, the time between SIGTERM and the end, and the greenlets of the worker
(certificate, metrics).  Everything else is gunicorn's.
"""

import functools
import socket as plain_socket
import time
from contextlib import AbstractContextManager, nullcontext
from email.utils import formatdate
from functools import partial
from typing import Any

import gevent
import gunicorn.util
from gevent import socket
from gevent.pool import Pool
from gevent.server import StreamServer
from gunicorn.workers.base_async import AsyncWorker
from gunicorn.workers.ggevent import GeventWorker

_GRACE_SECONDS = 1.0
"""The connection that was accepted last has so long for its handshake and its request."""
_LOOK_SECONDS = 0.25
"""How often the worker looks at its certificate's files and at the drain flag."""
_FAIR_SECONDS = 0.25
"""A connection may be silent so long, however many there are.  A client of TLS speaks first, and at once."""
_ROOM_FOR_THE_SILENT = 0.5
"""Of all places: while more connections are silent, those that had their fair time are ended."""


class Connection:
    """A TLS connection that answers in one record, and has a deadline for every wait.

    gunicorn sends an answer's head and body apart, which costs two records and wakes the API server for a head without
    a body; so the head is kept back until the body comes.
    """

    def __init__(self, connection: Any, *, idle_seconds: float, body_seconds: float) -> None:
        self._connection = connection
        self._idle_seconds, self._body_seconds = idle_seconds, body_seconds
        self._kept = b""
        self.await_request()

    def await_request(self) -> None:
        """Begin to wait for the next request, which may never come."""
        self._is_in_body = False
        self._until = time.monotonic() + self._idle_seconds

    def await_body(self) -> None:
        """Begin to wait for the rest of a request, which must come."""
        self._is_in_body = True
        self._until = time.monotonic() + self._body_seconds

    def recv(self, size: int) -> bytes:
        """Return the next bytes; none where no request came in time."""
        self._connection.settimeout(max(self._until - time.monotonic(), 0.001))
        try:
            data: bytes = self._connection.recv(size)
        except TimeoutError:
            if self._is_in_body:
                raise
            return b""
        return data

    def sendall(self, data: bytes) -> None:
        is_head = not self._kept and data.startswith(b"HTTP/1.")
        self._kept += data
        if not is_head:
            self.flush()

    def flush(self) -> None:
        """Send the bytes that are kept back: at the end of a request, the head of an answer without a body."""
        kept, self._kept = self._kept, b""
        if kept:
            self._connection.settimeout(self._body_seconds)
            self._connection.sendall(kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def settle(cfg: Any, **changes: Any) -> None:
    """Turn gunicorn's settings into plain attributes: it looks up some twenty a request, through a table."""
    found = {name: setting.get() for name, setting in cfg.settings.items() if not hasattr(type(cfg), name)}
    vars(cfg).update({**found, **changes})


@functools.lru_cache(maxsize=4)
def _date_of(second: int) -> str:
    return formatdate(second, usegmt=True)


def http_date(timestamp: float | None = None) -> str:
    """Return the text of the `Date` header; it is made once a second, not once an answer."""
    return _date_of(int(time.time() if timestamp is None else timestamp))


gunicorn.util.http_date = http_date


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn ships no types
    """Serves one listener until told to stop."""

    def patch(self) -> None:
        """Turn the listeners into gevent's; `serve` has patched the rest of the process before any import."""
        self.sockets: list[Any] = [
            socket.socket(item.FAMILY, plain_socket.SOCK_STREAM, fileno=item.sock.detach()) for item in self.sockets
        ]

    def run(self) -> None:
        process = self.app.process
        service = process.start_worker()
        settle(self.cfg)
        self._silent = 0
        servers = [self._serve(listener) for listener in self.sockets]
        while self.alive:
            self.notify()
            process.tls.refresh()
            if process.drain.is_up and self.cfg.keepalive:
                settle(self.cfg, keepalive=0)  # every answer from now on ends its connection
            gevent.sleep(_LOOK_SECONDS)
        for server in servers:
            server.close()
        self._finish(service, until=time.monotonic() + self.cfg.graceful_timeout)
        for server in servers:
            server.stop(timeout=0)
        process.log.flush()

    def _serve(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        server = StreamServer(listener, handle=partial(self.handle, listener), spawn=Pool(self.worker_connections))
        server.start()
        return server

    def _finish(self, service: Any, *, until: float) -> None:
        """Wait until reviews in flight are answered; idle connections need no answer."""
        gevent.sleep(_GRACE_SECONDS)
        while service.in_flight and time.monotonic() < until:
            self.notify()
            gevent.sleep(0.05)

    def timeout_ctx(self) -> AbstractContextManager[None]:
        """Return no timeout: the connection has deadlines of its own."""
        return nullcontext()

    def handle_request(self, listener_name: Any, req: Any, sock: Connection, addr: Any) -> None:
        sock.await_body()
        try:
            super().handle_request(listener_name, req, sock, addr)
        finally:
            sock.flush()
            sock.await_request()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve one connection, from its first byte on."""
        secured = self._secure(client)
        if secured is None:
            client.close()
            return
        settings = self.app.process.settings
        connection = Connection(secured, idle_seconds=settings.idle_seconds, body_seconds=settings.body_seconds)
        AsyncWorker.handle(self, listener, connection, addr)

    def _secure(self, client: Any) -> Any:
        """Return the connection under TLS; None when the client did not shake hands in time."""
        process = self.app.process
        until = time.monotonic() + process.settings.handshake_seconds
        if not self._speaks(client, until):
            return None
        secured = process.tls.context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        deadline = gevent.Timeout.start_new(max(until - time.monotonic(), 0.001))
        try:
            secured.do_handshake()
        except (gevent.Timeout, OSError):
            secured.close()
            return None
        finally:
            deadline.close()
        return secured

    def _speaks(self, client: Any, until: float) -> bool:
        """Wait for the first byte.  TLS costs a connection 80 KiB and half a millisecond: a silent one gets none."""
        self._silent += 1
        try:
            while (left := until - time.monotonic()) > 0:
                if _is_readable(client, min(left, _FAIR_SECONDS)):
                    return True
                if self._silent > _ROOM_FOR_THE_SILENT * self.worker_connections:
                    return False
            return False
        finally:
            self._silent -= 1


def _is_readable(client: Any, seconds: float) -> bool:
    try:
        socket.wait_read(client.fileno(), timeout=seconds)
    except TimeoutError:
        return False
    return True

"""gunicorn's gevent worker, hardened for what an API server and hostile clients do to a TLS port.

Owns: the handshake's deadline, what happens between SIGTERM and the end, and the worker's own greenlets (certificate,
metrics).  Everything else is gunicorn's.  May import gunicorn, gevent, and the room's server parts.
"""

import socket as plain_socket
import ssl
import time
from functools import partial
from typing import Any

import gevent
from gevent import socket
from gevent.pool import Pool
from gevent.server import StreamServer
from gunicorn.workers.ggevent import GeventWorker

_LOOK_SECONDS = 0.25
"""How often the worker looks at its certificate's files and at the drain flag."""


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn ships no types
    """Serves one listener until told to stop."""

    def patch(self) -> None:
        """`serve` patched the process before anything was imported; only the listeners are turned into gevent's."""
        self.sockets = [
            socket.socket(item.FAMILY, plain_socket.SOCK_STREAM, fileno=item.sock.detach()) for item in self.sockets
        ]

    def run(self) -> None:
        process = self.app.process
        service = process.start_worker()
        servers = [self._serve(listener, process.tls.context) for listener in self.sockets]
        while self.alive:
            self.notify()
            process.tls.refresh()
            if process.drain.is_up and self.cfg.keepalive:
                self.cfg.set("keepalive", 0)  # every answer from now on ends its connection
            gevent.sleep(_LOOK_SECONDS)
        for server in servers:
            server.close()
        self._finish(service, until=time.monotonic() + self.cfg.graceful_timeout)
        for server in servers:
            server.stop(timeout=0)

    def _serve(self, listener: Any, context: ssl.SSLContext) -> StreamServer:
        listener.setblocking(1)
        server = StreamServer(
            listener, handle=partial(self.handle, listener), spawn=Pool(self.worker_connections), ssl_context=context
        )
        server.start()
        return server

    def _finish(self, service: Any, *, until: float) -> None:
        """Reviews in flight are answered; idle connections are nobody's loss."""
        gevent.sleep(_LOOK_SECONDS)
        while service.in_flight and time.monotonic() < until:
            self.notify()
            gevent.sleep(0.05)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """One connection, from its handshake on."""
        if self._shakes_hands(client):
            super().handle(listener, client, addr)
        else:
            client.close()

    def _shakes_hands(self, client: Any) -> bool:
        deadline = gevent.Timeout(self.app.process.settings.handshake_seconds)
        deadline.start()
        try:
            client.do_handshake()
        except (gevent.Timeout, OSError):
            return False
        finally:
            deadline.close()
        return True

"""A load balancer for two replicas: a new connection goes to the first backend that is ready, in rotation.

It stands for a Service and its endpoints: a backend whose readiness fails gets no new connections.
"""

import http.client
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOOK_SECONDS = 0.2


class _Backends:
    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports, self._ready = ports, set(ports)
        self._turn = itertools.cycle(ports)

    def look(self) -> None:
        self._ready = {port for port in self._ports if _is_ready(port)}

    def next(self) -> int:
        for port in itertools.islice(self._turn, len(self._ports)):
            if port in self._ready:
                return port
        return next(self._turn)


def _is_ready(port: int) -> bool:
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, backends: _Backends) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            with suppress(OSError):
                server = socket.create_connection(("127.0.0.1", backends.next()))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=pair, daemon=True).start()


@contextmanager
def balanced(*ports: int) -> Iterator[int]:
    """Run a balancer before these backends, and return its port."""
    backends = _Backends(ports)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_LOOK_SECONDS):
            backends.look()

    threading.Thread(target=_accept, args=(listener, backends), daemon=True).start()
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        stop.set()
        listener.close()
        time.sleep(0)

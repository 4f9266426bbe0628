"""Clients that stall: silent, in half a handshake, after it, in half a header, in half a body."""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Stall = Callable[[int, ssl.SSLContext], socket.socket]
_HOST = "127.0.0.1"


def silent(port: int, _: ssl.SSLContext) -> socket.socket:
    """Connect, and send nothing."""
    return socket.create_connection((_HOST, port), timeout=20)


def half_a_handshake(port: int, _: ssl.SSLContext) -> socket.socket:
    """Send the first bytes of a handshake."""
    opened = socket.create_connection((_HOST, port), timeout=20)
    opened.sendall(b"\x16\x03\x01\x02")
    return opened


def idle(port: int, context: ssl.SSLContext) -> socket.socket:
    """Finish the handshake, and request nothing."""
    return context.wrap_socket(socket.create_connection((_HOST, port), timeout=20), server_hostname=_HOST)


def half_a_header(port: int, context: ssl.SSLContext) -> socket.socket:
    """Begin a request."""
    opened = idle(port, context)
    opened.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-")
    return opened


def half_a_body(port: int, context: ssl.SSLContext) -> socket.socket:
    """Begin the body of a request."""
    opened = idle(port, context)
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 6000\r\n\r\n{"
    opened.sendall(head)
    return opened


STALLS: tuple[Stall, ...] = (silent, half_a_handshake, idle, half_a_header, half_a_body)


@contextmanager
def hold(stall: Stall, port: int, authority: Path, *, count: int) -> Iterator[list[socket.socket]]:
    """Hold so many such clients at once."""
    context = ssl.create_default_context(cafile=str(authority))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(stall(port, context)) for _ in range(count)]

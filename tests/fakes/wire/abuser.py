"""A hostile container as one program: many connections on the container's own socket, each with valid lines only.

Run it as `python -m tests.fakes.wire.abuser KIND SOCKET GPU CONNECTIONS`; it goes on until it is killed.
"""

import contextlib
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator

KINDS = ("using", "want", "unread", "hello")
_LINES = 400


class Link:
    """One connection that says hello, and then the same line without end."""

    def __init__(self, path: str, gpu: str, line: bytes) -> None:
        self.path, self.gpu = path, gpu
        self.block = line * _LINES
        self.rest = b""
        self.socket: socket.socket | None = None

    def send(self) -> None:
        """Write as much as the socket takes now."""
        self.socket = self.socket or greeted(self.path, self.gpu)
        if self.socket is None:
            return
        try:
            while True:
                self.rest = self.rest or self.block
                self.rest = self.rest[self.socket.send(self.rest) :]
        except BlockingIOError:
            return
        except OSError:
            self.socket.close()
            self.socket, self.rest = None, b""

    def read(self) -> None:
        """Read and forget what the daemon answers."""
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.recv(1 << 18)


def greeted(path: str, gpu: str) -> socket.socket | None:
    """Return a connection that has said hello, or None where the daemon takes no more now."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.setblocking(False)
    try:
        one.connect(path)
        one.send(f"hello v=1 pid={os.getpid()} gpus={gpu}\n".encode())
    except OSError:
        one.close()
        return None
    return one


def lines_without_end(path: str, gpu: str, number: int, line: bytes, *, reads: bool) -> Iterator[None]:
    """Keep every connection full; read the answers, or never."""
    links = [Link(path, gpu, line) for _ in range(number)]
    while True:
        for link in links:
            link.send()
            if reads:
                link.read()
            yield


def hellos_without_end(path: str, gpu: str, number: int) -> Iterator[None]:
    """Connect, say hello, and leave, with so many connections at once."""
    while True:
        crowd = [one for one in (greeted(path, gpu) for _ in range(number)) if one is not None]
        yield
        for one in crowd:
            one.close()


def main(kind: str, path: str, gpu: str, connections: str) -> None:
    using = f"using gpu={gpu} pageable=0 unpageable=0\n".encode()
    want = f"want gpus={gpu}\n".encode()
    number = int(connections)
    moves: dict[str, Callable[[], Iterator[None]]] = {
        "using": lambda: lines_without_end(path, gpu, number, using, reads=True),
        "want": lambda: lines_without_end(path, gpu, number, want, reads=True),
        "unread": lambda: lines_without_end(path, gpu, number, want, reads=False),
        "hello": lambda: hellos_without_end(path, gpu, number),
    }
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for moved, _ in enumerate(moves[kind]()):
        if moved % number == 0:
            select.poll().poll(1)  # a full round may have found nothing to do


if __name__ == "__main__":
    main(*sys.argv[1:5])

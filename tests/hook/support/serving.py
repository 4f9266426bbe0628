"""A daemon that always agrees: it gives turns to every process that asks, and room to every one that wants to grow."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.fakes.wire.daemon import Connection, Peer, Unheard

MIB = 1 << 20
GIB = 1 << 30


@contextmanager
def serving(peer: Peer, **welcome: object) -> Iterator[list[Connection]]:
    """Answer every hello with a welcome, and grant every turn and every request to grow."""
    connections: list[Connection] = []
    is_over = threading.Event()

    def hear(connection: Connection) -> None:
        line = connection.next(within=0.2)
        if line is not None and line.verb == "want":
            for uuid in line.words["gpus"].split(","):
                peer.grant(connection, peer.gpus.index(uuid))
        elif line is not None and line.verb == "reserve":
            connection.say("reserved", gpu=line.words["gpu"], bytes=line.words["bytes"])

    def answer(connection: Connection) -> None:
        with suppress(Unheard, OSError):  # the process has ended, in the middle of a wish perhaps
            while not is_over.is_set():
                hear(connection)

    def accept() -> None:
        while not is_over.is_set():
            try:
                connection = peer.accept()
            except OSError:
                return
            peer.welcome(connection, **welcome)
            connections.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield connections
    finally:
        is_over.set()
        peer.stop()

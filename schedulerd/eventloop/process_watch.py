"""Notices the death of connected processes, whoever inherited their sockets.

Owns the pidfds: one a process, however many connections it has, so that a process that connects without end costs no
more descriptors than its connections.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.loop import Loop


@dataclass(slots=True, eq=False)
class Life:
    """A process, and the connections it has."""

    pid: int
    """0 where the kernel does not show it to us: such a process is followed once a connection."""
    pidfd: int
    clients: set[int] = field(default_factory=set)


class ProcessWatch:
    """The processes behind the connections."""

    def __init__(self, loop: Loop, died: Callable[[int], None]) -> None:
        self._loop = loop
        self._died = died
        self._by_pid: dict[int, Life] = {}
        self._by_client: dict[int, Life] = {}

    def follow(self, connection: Connection, pid: int) -> None:
        """Say so when the process behind a connection dies."""
        life = self._by_pid.get(pid) or self._begin(connection, pid)
        if life is not None:
            life.clients.add(connection.client)
            self._by_client[connection.client] = life

    def forget(self, client: int) -> None:
        """A connection has ended; with its last one a process is followed no longer."""
        life = self._by_client.pop(client, None)
        if life is None:
            return
        life.clients.discard(client)
        if not life.clients:
            self._by_pid.pop(life.pid, None)
            self._loop.close(life.pidfd)

    def _begin(self, connection: Connection, pid: int) -> Life | None:
        pidfd = connection.open_pidfd()
        if pidfd is None:
            return None
        life = Life(pid, pidfd)
        if pid > 0:
            self._by_pid[pid] = life
        self._loop.watch(pidfd, lambda _mask: self._ended(life))
        return life

    def _ended(self, life: Life) -> None:
        # First, so that a new process of the same number is not taken for this one.
        self._by_pid.pop(life.pid, None)
        for client in tuple(life.clients):
            self._died(client)

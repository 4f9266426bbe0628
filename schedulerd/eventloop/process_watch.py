"""The watch on connected processes: it notices their death, even if another process has inherited their sockets.

The rule it owns: there is one pidfd for each process, however many connections it has.  So a process that connects
without end costs no more descriptors than its connections.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.loop import Loop


@dataclass(slots=True, eq=False)
class Life:
    """A process and its connections."""

    pid: int
    """0 where the kernel does not show the process.  Then it is followed once for each connection."""
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
        """Call `died` when the process behind a connection dies."""
        life = self._by_pid.get(pid) or self._begin(connection, pid)
        if life is not None:
            life.clients.add(connection.client)
            self._by_client[connection.client] = life

    def forget(self, client: int) -> None:
        """Forget a connection that has ended.  When the last connection of a process ends, stop following it."""
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
        # This comes first, so that a new process with the same pid is not taken for this one.
        self._by_pid.pop(life.pid, None)
        for client in tuple(life.clients):
            self._died(client)

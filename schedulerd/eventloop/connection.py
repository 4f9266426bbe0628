"""The socket of one client: bytes in both directions, without waiting, and never more of them than the protocol allows.

The rule it owns: the limits on unread answers, of the connection itself and, by the budget, of its container.
`protocol/sessions.py` decides what the bytes mean.
"""

import array
import os
import select
import socket
import struct

from contract.wire.numbers import MAX_UNREAD_BYTES
from schedulerd.eventloop.loop import Loop
from schedulerd.protocol.budget import Budget

READ_BYTES = 1024
"""The bytes that are read at once from one connection before others are read: some 0.2 ms of usual lines."""
_SEND_BUFFER = 4096
"""The kernel doubles it and counts its own overhead, so it holds ten usual lines, and at most 9 KiB a connection.  The
default is 208 KiB.  That memory counts for the daemon, and clients that do not read would decide how much it is."""
_SO_PEERPIDFD = 77
_CREDENTIALS = struct.Struct("=iII")
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)


class Broken(Exception):
    """The client has gone."""


class Deaf(Broken):
    """The client, or its container, does not read its answers."""

    def __init__(self, sentence: str, limit: str) -> None:
        super().__init__(sentence)
        self.limit = limit


class Connection:
    """A connected socket."""

    __slots__ = (
        "_loop",
        "_pending",
        "_recv",
        "_send",
        "_socket",
        "budget",
        "client",
        "closing",
        "descriptor",
        "folder",
        "paused",
    )

    def __init__(self, client: int, accepted: socket.socket, loop: Loop, folder: str, budget: Budget) -> None:
        accepted.setblocking(False)
        self.client = client
        self.budget = budget
        self.folder = folder
        """The allocation whose socket this came through; empty stand-alone."""
        self.descriptor = accepted.fileno()
        self.closing = False
        self.paused = False
        """Nothing is read from it until the budget of its container is filled again."""
        self._socket = accepted
        self._recv, self._send = accepted.recv, accepted.send
        self._loop = loop
        self._pending = b""

    def shrink_send_buffer(self) -> None:
        """Let the kernel hold only few bytes that the client does not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def peer(self) -> tuple[int, int]:
        """Return the pid and the user id of the client, as the kernel saw them when it connected."""
        raw = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        return pid, uid

    def open_pidfd(self) -> int | None:
        """Open a descriptor that becomes readable when the client dies, even if another process has its socket."""
        try:
            pidfd = self._socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
            os.set_inheritable(pidfd, False)
        except OSError:
            return _pidfd_of(self.peer()[0])  # before Linux 6.5
        return pidfd

    def receive(self) -> bytes | None:
        """Return the bytes that have come, or None if there are none in spite of the event.

        Before that, try to send the answers that wait.
        """
        if self._pending:
            self.flush()
        try:
            data = self._recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Broken(str(error)) from None
        if not data:
            raise Broken("the client has closed the connection")
        return data

    def pause(self) -> None:
        """Read nothing for the time being."""
        self.paused = True
        self._listen()

    def go_on(self) -> None:
        """Read again."""
        self.paused = False
        if self.descriptor >= 0:
            self._listen()

    def _listen(self) -> None:
        """Wait for bytes unless paused, and for room if answers wait."""
        events = 0 if self.paused else select.EPOLLIN
        self._loop.change(self.descriptor, events | select.EPOLLOUT if self._pending else events)

    def send(self, data: bytes) -> None:
        """Write as much as goes now.  Keep the rest until the client reads."""
        if not self._pending:
            sent = self._send_now(data)
            if sent == len(data):
                return
            data = data[sent:]
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        is_first = not self._pending
        self._pending += data
        self.budget.unread += len(data)
        if len(self._pending) > MAX_UNREAD_BYTES:
            raise Deaf("the client does not read its answers", "unread-of-connection")
        if self.budget.unread > self.budget.limits.unread:
            raise Deaf("the processes of the container do not read their answers", "unread-of-container")
        if is_first:
            self._listen()

    def send_with(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        """Write a line that carries descriptors."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())]
        if self._pending:
            raise Broken("the client has not read the errors before its welcome")
        try:
            sent = self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
        except OSError as error:
            raise Broken(str(error)) from None
        if sent < len(data):
            self.send(data[sent:])

    def _send_now(self, data: bytes) -> int:
        try:
            return self._send(data, _NO_SIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Broken(str(error)) from None

    def flush(self) -> None:
        """Write as much of the waiting answers as goes now."""
        sent = self._send_now(self._pending)
        self._pending = self._pending[sent:]
        self.budget.unread -= sent
        if not self._pending:
            self._listen()

    @property
    def drained(self) -> bool:
        return not self._pending

    def close(self) -> None:
        """Close the descriptor when the batch is over."""
        self.budget.unread -= len(self._pending)
        self._pending = b""
        self.descriptor = -1
        self._loop.close(self._socket.detach())


def _pidfd_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None

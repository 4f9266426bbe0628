"""One client's socket: bytes both ways, never waiting, never holding more than the protocol allows.

Owns the limits on unread answers: of a connection here, of its container by the budget.  What the bytes mean is decided
at the desk.
"""

import array
import os
import select
import socket
import struct

from contract.wire import MAX_UNREAD_BYTES
from schedulerd.eventloop.loop import Loop
from schedulerd.protocol.budget import Budget

READ_BYTES = 1024
"""Read at once: what one connection says at most before others are heard, some 0.2 ms of usual lines."""
_SEND_BUFFER = 4096
"""The kernel doubles it and counts its own overhead, so it holds ten usual lines, and at most 9 KiB a connection.  The
default is 208 KiB; that memory is the daemon's, and clients that do not read would decide how much of it there is."""
_SO_PEERPIDFD = 77
_CREDENTIALS = struct.Struct("=iII")
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)


class Broken(Exception):
    """The other side has gone."""


class Deaf(Broken):
    """The other side, or its container, does not read its answers."""

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
        """Not read from until the budget of its container is filled again."""
        self._socket = accepted
        self._recv, self._send = accepted.recv, accepted.send
        self._loop = loop
        self._pending = b""

    def shrink_send_buffer(self) -> None:
        """Let the kernel hold little of what the other side does not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def peer(self) -> tuple[int, int]:
        """The other side's process id and user id, as the kernel saw them when it connected."""
        raw = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        return pid, uid

    def open_pidfd(self) -> int | None:
        """A descriptor that becomes readable when the peer dies, whoever inherited its socket."""
        try:
            pidfd = self._socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
            os.set_inheritable(pidfd, False)
        except OSError:
            return _pidfd_of(self.peer()[0])  # before Linux 6.5
        return pidfd

    def receive(self) -> bytes | None:
        """What has come, after a try to send what is unsent; None when nothing has, for all the event said."""
        if self._pending:
            self.flush()
        try:
            data = self._recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Broken(str(error)) from None
        if not data:
            raise Broken("the other side has closed")
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
        """Wait for what can be dealt with: bytes unless paused, room for answers that wait."""
        events = 0 if self.paused else select.EPOLLIN
        self._loop.change(self.descriptor, events | select.EPOLLOUT if self._pending else events)

    def send(self, data: bytes) -> None:
        """Write now what goes now; keep the rest until the other side reads."""
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
            raise Deaf("it does not read its answers", "unread-of-connection")
        if self.budget.unread > self.budget.limits.unread:
            raise Deaf("the processes of its container do not read their answers", "unread-of-container")
        if is_first:
            self._listen()

    def send_with(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        """Write a line that carries descriptors."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())]
        if self._pending:
            raise Broken("it has not read the errors before its welcome")
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
        """Write of the answers that wait what goes now."""
        sent = self._send_now(self._pending)
        self._pending = self._pending[sent:]
        self.budget.unread -= sent
        if not self._pending:
            self._listen()

    @property
    def drained(self) -> bool:
        return not self._pending

    def close(self) -> None:
        """Let go of the descriptor, once the batch is over."""
        self.budget.unread -= len(self._pending)
        self._pending = b""
        self.descriptor = -1
        self._loop.close(self._socket.detach())


def _pidfd_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None

"""One client's socket: bytes both ways, never waiting, never holding more than the protocol allows.

Owns the limit on unread answers.  What the bytes mean is decided at the desk.
May import the contract, the loop and the standard library.
"""

import array
import os
import select
import socket
import struct
from collections import deque

from contract.wire import MOST_UNREAD_BYTES
from schedulerd.eventloop.loop import Loop

READ_BYTES = 4096
"""Read at once: a client that floods gets one helping a batch, like everybody."""
_SO_PEERPIDFD = 77
_CREDENTIALS = struct.Struct("=iII")
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)


class Broken(Exception):
    """The other side has gone, or reads nothing."""


class Connection:
    """A connected socket."""

    __slots__ = (
        "_loop",
        "_pending",
        "_recv",
        "_send",
        "_socket",
        "_unread",
        "client",
        "closing",
        "descriptor",
        "folder",
    )

    def __init__(self, client: int, accepted: socket.socket, loop: Loop, folder: str) -> None:
        accepted.setblocking(False)
        self.client = client
        self.folder = folder
        """The allocation whose socket this came through; empty stand-alone."""
        self.descriptor = accepted.fileno()
        self.closing = False
        self._socket = accepted
        self._recv, self._send = accepted.recv, accepted.send
        self._loop = loop
        self._pending: deque[bytes] = deque()
        self._unread = 0

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
            self._flush()
        try:
            data = self._recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Broken(str(error)) from None
        if not data:
            raise Broken("the other side has closed")
        return data

    def send(self, data: bytes) -> None:
        """Write now what goes now; keep the rest until the other side reads."""
        if not self._pending:
            sent = self._send_now(data)
            if sent == len(data):
                return
            data = data[sent:]
            self._loop.change(self.descriptor, select.EPOLLIN | select.EPOLLOUT)
        self._pending.append(data)
        self._unread += len(data)
        if self._unread > MOST_UNREAD_BYTES:
            raise Broken("it does not read its answers")

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

    def _flush(self) -> None:
        while self._pending:
            data = self._pending.popleft()
            self._unread -= len(data)
            sent = self._send_now(data)
            if sent < len(data):
                self._pending.appendleft(data[sent:])
                self._unread += len(data) - sent
                return
        self._loop.change(self.descriptor, select.EPOLLIN)

    @property
    def drained(self) -> bool:
        return not self._pending

    def close(self) -> None:
        """Let go of the descriptor, once the batch is over."""
        self._loop.close(self._socket.detach())


def _pidfd_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None

"""The asking side of the control socket: `nvsharectl`, the observer, probes, tests.

The rule it owns: which line ends an answer.  `nvsharectl` must start fast: nothing slow may be imported here.
"""

import os
import socket
from collections.abc import Iterator
from typing import Self

from contract.wire.line import Line, decode
from contract.wire.status import QUERY, Status, decode_status
from schedulerd.errors import Unusable

_ENDINGS = ("end", "ok", "error")
_PATIENCE = 10.0
_PROBE_PATIENCE = 4.0
"""Less than a kubelet waits, so that the sentence reaches its event."""


class ControlClient:
    """A connection to the control socket."""

    def __init__(self, path: str | os.PathLike[str], patience: float | None = _PATIENCE) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(patience)
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            remedy = "Is nvshare-schedulerd running, are you root, and is --control right?"
            raise Unusable(f"cannot reach the scheduler at {path}: {error.strerror or error}. {remedy}") from None
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def fileno(self) -> int:
        """Return the socket's descriptor, to wait for lines that come unasked."""
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        """Send a request without waiting for an answer."""
        try:
            self._socket.sendall(request)
        except OSError as error:
            raise Unusable(f"the scheduler has gone: {error}. Try again.") from None

    def read(self) -> Line:
        """Return the next line."""
        try:
            raw = self._file.readline()
        except OSError as error:
            raise Unusable(f"the scheduler does not answer: {error}. Look at its log.") from None
        if not raw.endswith(b"\n"):
            raise Unusable("the scheduler has closed the connection. You must be root, or its own user.")
        return decode(raw)

    def ask(self, request: bytes) -> Iterator[Line]:
        """Send a request and yield its answer's lines without the last; raise the sentence of an `error`."""
        self.send(request)
        while (line := self.read()).verb not in _ENDINGS:
            yield line
        if line.verb == "error":
            raise Unusable(line.words.get("message", "the scheduler refuses the request") + ".")

    def read_status(self) -> Status:
        """Ask for the status."""
        return decode_status(self.ask(QUERY))


def probe(path: str | os.PathLike[str], request: bytes) -> str:
    """Return a sentence when the turn process says that it is well; raise one when it does not."""
    with ControlClient(path, patience=_PROBE_PATIENCE) as asking:
        list(asking.ask(request))
    return "The turn loop answers."

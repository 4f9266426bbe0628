"""The asking side of the control socket: `nvsharectl`, the observer, tests.

Owns nothing but how an answer ends.  `nvsharectl` must start fast: nothing slow may be imported here.
"""

import os
import socket
from collections.abc import Iterator
from typing import Self

from contract.line import Line, decode, encode
from schedulerd.errors import Unusable

ENDINGS = ("end", "ok", "error")
_PATIENCE = 10.0
_PROBE_PATIENCE = 4.0
"""Less than a kubelet waits: the sentence is to reach its event."""


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
        """Hang up."""
        self._file.close()
        self._socket.close()

    def fileno(self) -> int:
        """The socket's descriptor, to wait for what comes unasked."""
        return self._socket.fileno()

    def send(self, line: Line) -> None:
        """Say something that is not answered."""
        try:
            self._socket.sendall(encode(line))
        except OSError as error:
            raise Unusable(f"the scheduler has gone: {error}. Try again.") from None

    def read(self) -> Line:
        """The next line."""
        try:
            raw = self._file.readline()
        except OSError as error:
            raise Unusable(f"the scheduler does not answer: {error}. Look at its log.") from None
        if not raw.endswith(b"\n"):
            raise Unusable("the scheduler has hung up. You must be root, or its own user.")
        return decode(raw)

    def ask(self, verb: str, **words: str) -> Iterator[Line]:
        """The answer's lines without its ending; an `error` is raised."""
        self.send(Line(verb, words))
        while (line := self.read()).verb not in ENDINGS:
            yield line
        if line.verb == "error":
            raise Unusable(line.words.get("message", "refused") + ".")


def probe(path: str | os.PathLike[str], verb: str) -> str:
    """Return a sentence when the turn process says that it is well; raise one when it does not."""
    with ControlClient(path, patience=_PROBE_PATIENCE) as asking:
        list(asking.ask(verb))
    return "The turn loop answers."

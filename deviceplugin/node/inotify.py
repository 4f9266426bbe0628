"""The kernel's news about files and folders, as one descriptor that can be waited for.

The module owns the calls, which Python's library does not have, and the form of their answers.
"""

import ctypes
import errno
import os
import select
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

OPEN, CLOSE_WRITE = 0x20, 0x8
MOVED_FROM, MOVED_TO, MOVE_SELF = 0x40, 0x80, 0x800
DELETE, DELETE_SELF, IGNORED = 0x200, 0x400, 0x8000
OVERFLOW = 0x4000
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 65536
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class News:
    """One event: what happened, and to which name in a watched folder."""

    mask: int
    name: str


class Inotify:
    """One queue of events; as a context, closed at its end."""

    def __init__(self) -> None:
        self._descriptor = int(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if self._descriptor < 0:
            raise _last_error("inotify_init1")

    def __enter__(self) -> "Inotify":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def watch(self, path: Path, mask: int) -> None:
        """Watch a file or a folder; a file is followed when it is renamed.  Raise OSError."""
        if _libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask) < 0:
            raise _last_error(str(path))

    def read(self, seconds: float) -> list[News]:
        """Return the events that are there, or the first ones that come within the time."""
        until = time.monotonic() + seconds
        ready = select.poll()
        ready.register(self._descriptor, select.POLLIN)
        while not ready.poll(max(0.0, until - time.monotonic()) * 1000):
            if time.monotonic() >= until:
                return []
        return list(_parse(os.read(self._descriptor, _BUFFER_BYTES)))


def _parse(data: bytes) -> Iterator[News]:
    at = 0
    while at < len(data):
        _watch, mask, _cookie, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield News(mask, os.fsdecode(data[at : at + length].rstrip(b"\0")))
        at += length


def _last_error(what: str) -> OSError:
    number = ctypes.get_errno()
    if number == errno.EMFILE:
        return OSError(number, "too many inotify instances: raise fs.inotify.max_user_instances", what)
    return OSError(number, os.strerror(number), what)

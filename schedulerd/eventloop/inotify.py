"""The watch on a folder: it notices when entries come and go."""

import ctypes
import os
from pathlib import Path

_CREATE, _DELETE, _MOVED_FROM, _MOVED_TO, _DELETE_SELF, _ONLYDIR = 0x100, 0x200, 0x40, 0x80, 0x400, 0x01000000
_libc = ctypes.CDLL(None, use_errno=True)


def watch_folder(path: Path) -> int:
    """Return a descriptor that becomes readable whenever an entry comes into the folder or leaves it."""
    descriptor = int(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    mask = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _DELETE_SELF | _ONLYDIR
    if descriptor < 0 or _libc.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0:
        error = ctypes.get_errno()
        if descriptor >= 0:
            os.close(descriptor)
        raise OSError(error, os.strerror(error), str(path))
    return descriptor

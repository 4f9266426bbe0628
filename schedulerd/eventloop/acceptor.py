"""Accepts clients, and turns them away when no descriptor is left for them.

Owns a spare descriptor: who cannot be accepted would wait in the backlog and keep the loop spinning.
"""

import errno
import logging
import os
import socket

log = logging.getLogger(__name__)

_AT_ONCE = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Acceptor:
    """Of one or more listening sockets."""

    def __init__(self) -> None:
        self._spare = _open_spare()

    def next(self, listener: socket.socket) -> socket.socket | None:
        """Who comes next; None when nobody does who can be let in."""
        for _ in range(_AT_ONCE):
            try:
                return listener.accept()[0]
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    log.warning("cannot accept a client: %s", error)
                    return None
            if not self._turn_away(listener):
                return None
        return None

    def _turn_away(self, listener: socket.socket) -> bool:
        """False: nobody waits; out of descriptors `accept` fails before it looks whether somebody does."""
        if self._spare is not None:
            os.close(self._spare)
        try:
            listener.accept()[0].close()
        except OSError:
            return False
        else:
            return True
        finally:
            self._spare = _open_spare()


def _open_spare() -> int | None:
    try:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None

"""The acceptor: it accepts clients, and turns them away when no descriptor is left for them.

The rule it owns: one descriptor is kept spare.  A client that cannot be accepted would wait in the backlog and keep the
loop spinning, so it is accepted with the spare one and closed.
"""

import errno
import logging
import os
import socket

log = logging.getLogger(__name__)

_AT_ONCE = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Acceptor:
    """The acceptor of one or more listening sockets."""

    def __init__(self) -> None:
        self._spare = _open_spare()

    def next(self, listener: socket.socket) -> socket.socket | None:
        """Return the next client's socket, or None if there is no client, or no descriptor for one."""
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
        """Close the next client's connection; return whether a client was waiting.

        `accept` fails for lack of descriptors before it looks whether a client waits.
        """
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

"""Carry out what `core/registration.py` decides: look at the sockets, break and make servers, register.

Owns the one live server.  Looks at the kubelet's socket by name every few hundredths of a second: a watch on the folder
would go blind when the folder itself is replaced.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from adapters.kubelet.rpc import RpcError, describe_error
from deviceplugin.core import registration as registration
from deviceplugin.core.events import Registered, RegistrationLost, Tell
from deviceplugin.core.registration import Cause, RegistrationState, Seen, SocketId
from deviceplugin.kubelet.calls import Parts
from deviceplugin.kubelet.server import PluginServer, remove_stale_sockets, somebody_listens

log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.05
_WAITING_LOOK_SECONDS = 0.005
"""While no kubelet knows us: one that comes back after a reboot fails pods that it admits before we are registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSide:
    """Where the kubelet is, and what we are to it."""

    folder: Path
    socket: Path
    resource: str
    register_seconds: float = 12.0
    """The kubelet dials us for up to 10 s from within the call."""


class Registrar:
    """Runs until `stop` is set, and leaves no server behind."""

    def __init__(
        self, side: KubeletSide, parts: Parts, tell: Tell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._side, self._parts, self._tell, self._clock = side, parts, tell, clock
        self._state = RegistrationState()
        self._server: PluginServer | None = None

    def begin(self) -> None:
        """Serves and registers for the first time, if there is a kubelet."""
        remove_stale_sockets(self._side.folder)
        self._step()

    def run(self, stop: threading.Event) -> None:
        """Serves and registers, again and again."""
        try:
            while not stop.wait(self._step()):
                pass
        finally:
            self.close()

    def _step(self) -> float:
        now = self._clock()
        cause = registration.cause_to_renew(self._state, self._look(), now=now)
        if cause is None:
            return _LOOK_SECONDS if self._state.registered_with is not None else _WAITING_LOOK_SECONDS
        if self._state.registered_with is not None:
            self._tell(RegistrationLost(cause.value))
            self._state = registration.lose(self._state, cause, now=now)
            self.close()
            return 0.0
        if not somebody_listens(self._side.socket):
            return _WAITING_LOOK_SECONDS  # left by a kubelet that was killed; the next one clears the folder first
        self._make(cause)
        return 0.0

    def _look(self) -> Seen:
        server = self._server
        if server is None:
            return Seen(kubelet=identity(self._side.socket))
        streams = server.streams
        return Seen(
            kubelet=identity(self._side.socket),
            own_socket=server.path.exists(),
            opened=streams.opened,
            open_now=streams.open_now,
        )

    def _make(self, cause: Cause) -> None:
        """A new server, registered with the kubelet that was there before: one that restarts meanwhile is noticed."""
        kubelet = identity(self._side.socket)
        if kubelet is None:
            return
        self._state = registration.tried(self._state, kubelet)
        self._server = PluginServer(self._side.folder, self._parts)
        try:
            self._server.start()
            self._server.register(self._side.socket, self._side.resource, seconds=self._side.register_seconds)
        except (RpcError, OSError, RuntimeError) as error:
            self._failed(error)
        else:
            self._state = registration.registered(self._state, kubelet, now=self._clock())
            self._tell(Registered(cause.value, self._server.path.name))

    def _failed(self, error: Exception) -> None:
        self.close()
        self._state = registration.lose(self._state, Cause.REGISTER_FAILED, now=self._clock())
        log.warning("the kubelet did not take the registration: %s", describe_error(error))

    def close(self) -> None:
        """Leaves no server behind."""
        if self._server is not None:
            self._server.stop()
            self._server = None


def identity(path: Path) -> SocketId | None:
    """Which socket lies there now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns)

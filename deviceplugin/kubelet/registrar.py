"""Carry out what `core/registration.py` decides: look at the sockets, replace servers, register.

The module owns the one live server.  It looks at the kubelet's socket by name every few hundredths of a second.  A
watch on the folder would go blind when the folder itself is replaced.
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
"""Used while no kubelet knows us.  After a reboot the kubelet fails the pods that it admits before we are registered.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSide:
    """Where the kubelet's sockets are, and which resource we serve."""

    folder: Path
    socket: Path
    resource: str
    register_seconds: float = 12.0
    """The kubelet dials us for up to 10 s before the call returns."""


class Registrar:
    """Serve and register until `stop` is set, and leave no server behind."""

    def __init__(
        self, side: KubeletSide, parts: Parts, tell: Tell, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._side, self._parts, self._tell, self._clock = side, parts, tell, clock
        self._state = RegistrationState()
        self._server: PluginServer | None = None

    def begin(self) -> None:
        """Serve and register for the first time, if there is a kubelet."""
        remove_stale_sockets(self._side.folder)
        self._step()

    def run(self, stop: threading.Event) -> None:
        """Serve and register again whenever it is needed."""
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
            return _WAITING_LOOK_SECONDS  # a killed kubelet left the socket; the next kubelet clears the folder first
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
        """Start a new server and register it.

        The kubelet's identity is read before, so that a kubelet that restarts meanwhile is noticed.
        """
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
        log.warning("the kubelet did not accept the registration: %s", describe_error(error))

    def close(self) -> None:
        """Stop the live server, if there is one."""
        if self._server is not None:
            self._server.stop()
            self._server = None


def identity(path: Path) -> SocketId | None:
    """Return which socket is at this path now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns)

"""Decide when to start a new server and register with the kubelet, and when to leave things alone.

The module owns that rule as a pure step from what is seen to what is done.  The order is break before make: the old
server is gone before a new one starts, and a socket is registered once.  `kubelet/registrar.py` carries it out.
"""

from dataclasses import dataclass, replace
from enum import Enum

FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 10.0
_MAX_DOUBLINGS = 20
"""2**1024 is no float, and three hours of refusals would count that far."""
STREAM_SECONDS = 15.0
"""How long a kubelet may take between Register's answer and listening; it dials for up to 10 s."""
STEADY_SECONDS = 30.0
"""After the kubelet has listened for this time, earlier failures are forgotten."""

SocketId = tuple[int, int, int]
"""Device, inode and time of the kubelet's socket.  A different one is a different kubelet, even under the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the registrar sees at one moment."""

    kubelet: SocketId | None
    own_socket: bool = True
    """Whether our socket's file exists."""
    opened: int = 0
    """How many streams the kubelet ever opened on this server."""
    open_now: int = 0


class Cause(Enum):
    """Why a new server is needed."""

    FIRST = "first"
    KUBELET_RESTARTED = "kubelet-restarted"
    STREAM_ENDED = "stream-ended"
    STREAM_NEVER_CAME = "stream-never-came"
    SOCKET_REMOVED = "socket-removed"
    REGISTER_FAILED = "register-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationState:
    """What the registrar remembers about the current server."""

    registered_with: SocketId | None = None
    """The kubelet that knows this server; None when no kubelet does."""
    registered_at: float = 0.0
    tried_with: SocketId | None = None
    """The kubelet that was told last, with or without success.  A different kubelet is told at once."""
    troubles: int = 0
    """Failures in a row."""
    not_before: float = 0.0
    pending: Cause = Cause.FIRST
    """Why a registration is needed, while there is none."""


def cause_to_renew(state: RegistrationState, seen: Seen, *, now: float) -> Cause | None:
    """Return why a new server is needed now, or None."""
    if seen.kubelet is None:
        return None
    if state.registered_with is None:
        return state.pending if now >= state.not_before or seen.kubelet != state.tried_with else None
    return _trouble(state, seen, now)


def _trouble(state: RegistrationState, seen: Seen, now: float) -> Cause | None:
    if seen.kubelet != state.registered_with:
        return Cause.KUBELET_RESTARTED
    if not seen.own_socket:
        return Cause.SOCKET_REMOVED
    if seen.opened and not seen.open_now:
        return Cause.STREAM_ENDED
    if not seen.opened and now - state.registered_at > STREAM_SECONDS:
        return Cause.STREAM_NEVER_CAME
    return None


def lose(state: RegistrationState, cause: Cause, *, now: float) -> RegistrationState:
    """Return the state after the server was broken; each failure in a row makes the next wait longer."""
    steady = state.registered_with is not None and now - state.registered_at > STEADY_SECONDS
    fresh = steady or cause in (Cause.FIRST, Cause.KUBELET_RESTARTED)
    troubles = 0 if fresh else state.troubles + 1
    doublings = min(troubles - 1, _MAX_DOUBLINGS)
    wait = min(FIRST_WAIT_SECONDS * 2**doublings, LONGEST_WAIT_SECONDS) if troubles else 0.0
    return RegistrationState(tried_with=state.tried_with, troubles=troubles, not_before=now + wait, pending=cause)


def tried(state: RegistrationState, kubelet: SocketId) -> RegistrationState:
    """Return the state while the kubelet is being told."""
    return replace(state, tried_with=kubelet)


def registered(state: RegistrationState, kubelet: SocketId, *, now: float) -> RegistrationState:
    """Return the state after the kubelet accepted."""
    return replace(state, registered_with=kubelet, registered_at=now)

"""Open lookups: the cluster is asked which pod an allocation belongs to, again and again until it answers.

The rule it owns: when each lookup is sent.  It is sent at once, then after pauses that grow, and only while a client
waits for the answer or runs without it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from contract.allocation import Allocation
from contract.wire.control import Who
from contract.wire.numbers import IDENTITY_SECONDS
from schedulerd.policies import FOREVER, Seconds

_FIRST_PAUSE: Seconds = 1.0
_LONGEST_PAUSE: Seconds = 30.0


@dataclass(slots=True)
class Lookup:
    """A lookup without an answer."""

    allocation: Allocation
    uid: str
    """The uid of the pod that one of its processes was seen in.  The observer passes over another pod of the same
    name, which must be older."""
    ask_at: Seconds = FOREVER
    """When it is sent again.  Never while no process of the container is there."""
    pause: Seconds = _FIRST_PAUSE


class Lookups:
    """The open lookups, by container."""

    def __init__(self, ask: Callable[[Who], int], is_wanted: Callable[[str], bool]) -> None:
        self._ask = ask
        self._is_wanted = is_wanted
        self._open: dict[str, Lookup] = {}
        self.next_alarm: Seconds = FOREVER

    def put(self, allocation: Allocation, uid: str | None, now: Seconds) -> None:
        """Open a lookup for a client.  One that was sent already, or will be soon, is not sent again for it."""
        lookup = self._open.setdefault(allocation.container, Lookup(allocation, ""))
        lookup.uid = uid or lookup.uid
        if lookup.ask_at == FOREVER:
            self._put(lookup, now)
            self._set_alarm()

    def put_due(self, now: Seconds) -> None:
        """Send the lookups again that are due."""
        for key, lookup in self._open.items():
            if lookup.ask_at > now:
                continue
            if self._is_wanted(key):
                self._put(lookup, now)
            else:
                lookup.ask_at = FOREVER
        self._set_alarm()

    def put_all(self, now: Seconds) -> None:
        """Send all lookups now, because an observer has come that may know the answers."""
        for key, lookup in self._open.items():
            if self._is_wanted(key):
                self._put(lookup, now)
        self._set_alarm()

    def is_open(self, key: str) -> bool:
        """Return whether a container's lookup has no answer yet."""
        return key in self._open

    def close(self, key: str) -> None:
        """Close a lookup that is answered, or that no client will need any more."""
        if self._open.pop(key, None) is not None:
            self._set_alarm()

    def _put(self, lookup: Lookup, now: Seconds) -> None:
        lookup.ask_at = now + IDENTITY_SECONDS + lookup.pause
        lookup.pause = min(2 * lookup.pause, _LONGEST_PAUSE)
        allocation = lookup.allocation
        self._ask(Who(allocation.container, tuple(allocation.device_ids), lookup.uid))

    def _set_alarm(self) -> None:
        self.next_alarm = min((one.ask_at for one in self._open.values()), default=FOREVER)

"""What the cluster has not answered yet: whose allocation it is, asked again until it says so.

Owns when each question is put: at once, then after pauses that grow, and only while somebody waits for the answer or
runs without it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from contract.allocation import Allocation
from contract.line import Line
from contract.wire import IDENTITY_SECONDS
from schedulerd.policies import FOREVER, Seconds

_FIRST_PAUSE: Seconds = 1.0
_LONGEST_PAUSE: Seconds = 30.0


@dataclass(slots=True)
class Lookup:
    """One that is open."""

    allocation: Allocation
    uid: str
    """The pod that a process of it was seen in: what the observer knows of another pod of that name is old."""
    ask_at: Seconds = FOREVER
    """When it is put again; never, while nobody is there."""
    pause: Seconds = _FIRST_PAUSE


class Lookups:
    """The open ones, by container."""

    def __init__(self, ask: Callable[[Line], int], is_wanted: Callable[[str], bool]) -> None:
        self._ask = ask
        self._is_wanted = is_wanted
        self._open: dict[str, Lookup] = {}
        self.next_alarm: Seconds = FOREVER

    def put(self, allocation: Allocation, uid: str | None, now: Seconds) -> None:
        """Somebody wants to know; one that is asked already, or will be soon, is not asked again for that."""
        lookup = self._open.setdefault(allocation.container, Lookup(allocation, ""))
        lookup.uid = uid or lookup.uid
        if lookup.ask_at == FOREVER:
            self._put(lookup, now)
            self._set_alarm()

    def put_due(self, now: Seconds) -> None:
        """Ask again what it is time for."""
        for key, lookup in self._open.items():
            if lookup.ask_at > now:
                continue
            if self._is_wanted(key):
                self._put(lookup, now)
            else:
                lookup.ask_at = FOREVER
        self._set_alarm()

    def put_all(self, now: Seconds) -> None:
        """Somebody has come who may know."""
        for key, lookup in self._open.items():
            if self._is_wanted(key):
                self._put(lookup, now)
        self._set_alarm()

    def is_open(self, key: str) -> bool:
        """It has no answer yet."""
        return key in self._open

    def close(self, key: str) -> None:
        """It is answered, or nobody will want to know any more."""
        if self._open.pop(key, None) is not None:
            self._set_alarm()

    def _put(self, lookup: Lookup, now: Seconds) -> None:
        lookup.ask_at = now + IDENTITY_SECONDS + lookup.pause
        lookup.pause = min(2 * lookup.pause, _LONGEST_PAUSE)
        allocation = lookup.allocation
        words = {"key": allocation.container, "devices": ",".join(allocation.device_ids), "uid": lookup.uid}
        self._ask(Line("who", {key: text for key, text in words.items() if text}))

    def _set_alarm(self) -> None:
        self.next_alarm = min((one.ask_at for one in self._open.values()), default=FOREVER)

"""What each card and MIG instance is doing, and which processes are on it, through `adapters.nvml`.

Owns when the library is opened: one that is not there is asked for again at the next look, and one that misses a card
is opened anew after a minute.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from adapters import nvml
from adapters.nvml import Handle, NoAnswer
from contract.wire.control import Figures

log = logging.getLogger(__name__)

Seconds = float
FOREVER: Seconds = float("inf")
_OPEN_AGAIN: Seconds = 60.0
"""To look whether a card that does not answer is back: to close the library may cost the others a start."""


class Cards:
    """The library, opened when it can be; calls from several threads wait for each other."""

    def __init__(self, driver_root: Path | None = None, clock: Callable[[], Seconds] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._library = nvml.Library(driver_root)
        self._silent: set[int] = set()
        """Places whose card does not answer."""
        self._open_again_at: Seconds = FOREVER
        self._said = ""

    @property
    def told(self) -> str:
        """Say in one sentence which library answers, or why none does and what to do."""
        return self._library.told

    def read(self) -> dict[str, Figures]:
        """Return every card's figures; empty where there is no library."""
        with self._lock:
            return {uuid: Figures(**asdict(nvml.read_figures(handle))) for uuid, handle in self._handles().items()}

    def processes(self) -> dict[str, set[int]]:
        """Return the processes that compute on each card."""
        with self._lock:
            return {uuid: nvml.list_processes(handle) for uuid, handle in self._handles().items()}

    def _handles(self) -> dict[str, Handle]:
        if self._clock() >= self._open_again_at:
            self._close()  # an open library keeps the list that it had: only a new one finds a card again
        try:
            count = self._library.open()
        except NoAnswer as error:
            self._close()
            self._say(str(error))
            return {}
        self._said = ""
        found = dict(named for place in range(count) for named in self._at(place))
        if not found:
            self._close()  # no card is in use through it
        return found

    def _at(self, place: int) -> list[tuple[str, Handle]]:
        """Return the card of that number and its MIG instances; none where it does not answer."""
        try:
            handle = nvml.find(place)
            found = [(nvml.read_uuid(one), one) for one in (handle, *nvml.list_instances(handle))]
        except NoAnswer as error:
            if place not in self._silent:
                log.warning("card %d is left out: %s", place, error)
            self._silent.add(place)
            self._open_again_at = min(self._open_again_at, self._clock() + _OPEN_AGAIN)
            return []
        self._silent.discard(place)
        return found

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            log.warning("%s", sentence)
            self._said = sentence

    def _close(self) -> None:
        self._open_again_at = FOREVER
        self._library.close()

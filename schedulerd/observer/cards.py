"""NVML through `pynvml`: what each card and MIG instance is doing, and which processes are on it.

Owns the translation of handles and errors into plain figures; what a card does not tell is None.  A library that is not
there is asked for again later.  May import the node's facts.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from schedulerd.core.node_state import Figures

log = logging.getLogger(__name__)

T = TypeVar("T")
Seconds = float
FOREVER: Seconds = float("inf")
_OPEN_AGAIN: Seconds = 60.0
"""To look whether a card that does not answer is back: to close the library may cost the others a start."""


class Cards:
    """The library, opened when it can be; calls from several threads wait for each other."""

    def __init__(self, clock: Callable[[], Seconds] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open = False
        self._silent: set[int] = set()
        """Places whose card does not answer."""
        self._open_again_at: Seconds = FOREVER
        self._said = ""

    def read(self) -> dict[str, Figures]:
        """Every card's figures; empty where there is no library."""
        with self._lock:
            return {uuid: _figures(handle) for uuid, handle in self._handles().items()}

    def processes(self) -> dict[str, set[int]]:
        """Of every card: the processes that compute on it."""
        found: dict[str, set[int]] = {}
        with self._lock:
            for uuid, handle in self._handles().items():
                running = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
                found[uuid] = {int(one.pid) for one in running or ()}
        return found

    def _handles(self) -> dict[str, Any]:
        if self._clock() >= self._open_again_at:
            self._close()  # an open library keeps the list that it had: only a new one finds a card again
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open, self._said = True, ""
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self._close()
            self._say(f"NVML does not answer: {error}")
            return {}
        found = dict(named for place in range(count) for named in self._at(place))
        if not found:
            self._close()  # nobody's to lose
        return found

    def _at(self, place: int) -> list[tuple[str, Any]]:
        """The card of that number and its MIG instances; none where it does not answer, whatever the others do."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(place)
            found = [(_uuid(one), one) for one in (handle, *_instances(handle))]
        except pynvml.NVMLError as error:
            if place not in self._silent:
                log.warning("card %d does not answer: %s", place, error)
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
        if self._open:
            self._open = False
            _ask(pynvml.nvmlShutdown)


def _instances(handle: Any) -> list[Any]:
    """The MIG instances of a card; none where it has none."""
    mode = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return []
    most = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    parts = (_ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(most))
    return [part for part in parts if part is not None]


def _uuid(handle: Any) -> str:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def _figures(handle: Any) -> Figures:
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    power = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    rates = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return Figures(
        memory_total=None if memory is None else int(memory.total),
        memory_used=None if memory is None else int(memory.used),
        temperature=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power=None if power is None else power / 1000,
        utilization=None if rates is None else rates.gpu / 100,
    )


def _ask(function: Callable[..., T], *arguments: Any) -> T | None:
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None

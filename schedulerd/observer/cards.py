"""NVML through `pynvml`: what each card and MIG instance is doing, and which processes are on it.

Owns the translation of handles and errors into plain figures; what a card does not tell is None.  A library that is not
there is asked for again later.  May import the node's facts.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from schedulerd.node import Figures

log = logging.getLogger(__name__)

T = TypeVar("T")


class Cards:
    """The library, opened when it can be."""

    def __init__(self) -> None:
        self._open = False
        self._said = ""

    def read(self) -> dict[str, Figures]:
        """Every card's figures; empty where there is no library."""
        return {uuid: _figures(handle) for uuid, handle in self._handles().items()}

    def processes(self) -> dict[str, set[int]]:
        """Of every card: the processes that compute on it."""
        found: dict[str, set[int]] = {}
        for uuid, handle in self._handles().items():
            running = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
            found[uuid] = {int(one.pid) for one in running or ()}
        return found

    def _handles(self) -> dict[str, Any]:
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open = True
            handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
            parts = [part for handle in handles for part in _instances(handle)]
            return {_uuid(handle): handle for handle in (*handles, *parts)}
        except pynvml.NVMLError as error:
            self._close(str(error))
            return {}

    def _close(self, why: str) -> None:
        if why != self._said:
            log.warning("NVML does not answer: %s", why)
            self._said = why
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

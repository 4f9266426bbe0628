"""NVML through `pynvml`: what GPUs there are, whether one answers, and which XIDs were raised.

Owns the translation of NVML's handles and errors into the room's types; decides nothing.  All calls come from one
thread, since a rescan closes the library under everybody's feet.  May import `inventory` and `errors`.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pynvml

from contract.sharing.inventory import Gpu
from deviceplugin.errors import GpuGone, NvmlUnavailable

log = logging.getLogger(__name__)
_NO_NUMA = 0xFFFFFFFF
_PCI_DEVICES = Path("/sys/bus/pci/devices")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Xid:
    """A critical event as NVML reports it; without a UUID where NVML does not know which GPU."""

    uuid: str | None
    number: int


class GpuLibrary(Protocol):
    """What the watch asks of NVML."""

    def rescan(self) -> list[Gpu]:
        """All GPUs that answer now; those that came or went since are seen."""

    def check(self, uuid: str) -> None:
        """Raises `GpuGone` where the GPU does not answer."""

    def wait_for_xid(self, seconds: float) -> Xid | None:
        """The next XID, or None when the time is over."""

    def close(self) -> None:
        """Lets the library go."""


class Nvml:
    """The real library, or the software GPU's."""

    def __init__(self) -> None:
        self._is_open = False
        self._handles: dict[str, Any] = {}
        self._events: Any = None

    def rescan(self) -> list[Gpu]:
        """Opens the library anew: an open one keeps the list that it had."""
        self.close()
        try:
            pynvml.nvmlInit()
            self._is_open = True
            count = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise NvmlUnavailable(
                f"NVML does not answer ({error}). Is NVIDIA's driver installed and its library mounted?"
            ) from error
        gpus = [gpu for index in range(count) if (gpu := self._find(index)) is not None]
        self._listen()
        return gpus

    def _find(self, index: int) -> Gpu | None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpu = describe(handle)
        except pynvml.NVMLError as error:
            log.warning("GPU %d does not answer: %s", index, error)
            return None
        self._handles[gpu.uuid] = handle
        return gpu

    def _listen(self) -> None:
        """Asks for XIDs of every GPU; a card or library without events is only polled."""
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            log.info("no events from this NVML (%s): GPUs are polled only", error)
            return
        for uuid, handle in self._handles.items():
            with _passing_over(f"events of {uuid}"):
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def check(self, uuid: str) -> None:
        """Asks for its memory, which a card off the bus cannot tell; to have none of its own (GB10) is an answer."""
        handle = self._handles.get(uuid)
        if handle is None:
            raise GpuGone(f"GPU {uuid} is not there")
        try:
            pynvml.nvmlDeviceGetMemoryInfo(handle)
        except pynvml.NVMLError_NotSupported:
            return
        except pynvml.NVMLError as error:
            raise GpuGone(f"GPU {uuid} does not answer: {error}") from error

    def wait_for_xid(self, seconds: float) -> Xid | None:
        """Waits in NVML; what is wrong with the events is left to the polling."""
        if self._events is None:
            return None
        try:
            event = pynvml.nvmlEventSetWait_v2(self._events, int(seconds * 1000))
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            log.warning("NVML's events broke off (%s): GPUs are polled until the next scan", error)
            self._events = None
            return None
        return Xid(_uuid_of(event.device), int(event.eventData))

    def close(self) -> None:
        """Frees the events and the library, as often as one likes."""
        if self._events is not None:
            with _passing_over("the event set"):
                pynvml.nvmlEventSetFree(self._events)
        if self._is_open:
            with _passing_over("the library"):
                pynvml.nvmlShutdown()
        self._events, self._is_open, self._handles = None, False, {}


def describe(handle: Any) -> Gpu:
    """The GPU behind a handle; what an old driver does not tell is left unknown."""
    major_minor = _ask(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle), None)
    pci = _ask(lambda: _text(pynvml.nvmlDeviceGetPciInfo(handle).busId), "")
    return Gpu(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        model=_text(pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=_ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), 0),
        compute="" if major_minor is None else "{}.{}".format(*major_minor),
        pci=pci,
        numa=_numa(handle, pci),
        mig=_ask(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE, False),
    )


def _numa(handle: Any, pci: str) -> int | None:
    """NVML's own answer, else the kernel's; -1 is the kernel's word for unknown."""
    told = _ask(lambda: int(pynvml.nvmlDeviceGetNumaNodeId(handle)), _NO_NUMA)
    if told != _NO_NUMA:
        return told
    domain, _, rest = pci.lower().partition(":")
    try:
        node = int((_PCI_DEVICES / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _ask(question: Callable[[], T], otherwise: T) -> T:
    try:
        return question()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_InvalidArgument):
        return otherwise


def _uuid_of(handle: Any) -> str | None:
    try:
        return _text(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@contextlib.contextmanager
def _passing_over(what: str) -> Iterator[None]:
    """Logs an NVML error and goes on."""
    try:
        yield
    except pynvml.NVMLError as error:
        log.info("NVML says of %s: %s", what, error)

"""NVML through `pynvml`: which GPUs there are, what each one is and does, and which XIDs were raised.

Owns the translation of NVML's handles and errors, and which library is loaded: the loader's own first, then each that
`driver_files` finds.  pynvml loads by name alone, so a library of another place is put under it by its absolute path.
A library or a GPU that does not answer is a `NoAnswer`; a figure that a GPU does not tell is None.  An open library
keeps the list of GPUs that it was opened with: only one that is opened anew finds a GPU that came back.
Nothing here is safe for several threads: a room keeps to one, or takes a lock.
"""

import contextlib
import ctypes
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from adapters import driver_files
from adapters.driver_files import Candidate, Found, Search

log = logging.getLogger(__name__)
_NO_NUMA = 0xFFFFFFFF
_COMPUTE_MODES = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "Default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "Exclusive_Thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "Prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "Exclusive_Process",
}
"""In nvidia-smi's words."""
_PCI_DEVICES = Path("/sys/bus/pci/devices")
_UNTOLD = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_InvalidArgument)
"""How old drivers and odd cards say that they do not know; any other error means that the GPU does not answer."""
T = TypeVar("T")
Handle = Any
"""A GPU or MIG instance of the open library; worthless once it is closed."""


_Source = Candidate | None
"""None: whatever the loader finds by the library's name, as where NVIDIA's runtime puts it into the container."""
_UNKNOWN = Candidate(Path(), Path())
"""No library was opened yet."""


class NoAnswer(Exception):
    """NVML, or one GPU, does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a GPU is; empty or None where an old driver does not say."""

    uuid: str
    model: str
    memory_bytes: int
    compute: str
    """Compute capability, as `9.0`."""
    pci: str
    numa: int | None
    minor: int | None
    """Its number in /dev/nvidia<n>."""
    mig: bool
    """MIG mode is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a GPU is doing; None where it does not say."""

    memory_total: int | None
    memory_used: int | None
    temperature: int | None
    power: float | None
    """Watts."""
    utilization: float | None
    """From 0 to 1."""


@dataclass(frozen=True, slots=True)
class Xid:
    """A critical event as NVML reports it; without a UUID where NVML does not know which GPU."""

    uuid: str | None
    number: int


class Library:
    """The library of this process, NVIDIA's or the software GPU's, and its events."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._is_open = False
        self._events: Any = None
        self._opened: _Source = _UNKNOWN
        """What was opened last, which is tried first."""
        self.found: Found | None = None
        self.told = "NVML was not looked for yet."
        """In one sentence: which library answers, or why none does and what to do."""
        self.is_outdated = False
        """The driver was upgraded, and this container has the former one's library: only a new container helps."""

    def open(self) -> int:
        """Open the library unless it is open, and return the number of GPUs; closed again where it raises NoAnswer."""
        if not self._is_open:
            self._find()
        try:
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            self.close()
            raise NoAnswer(f"NVML does not answer: {error}") from error

    def _find(self) -> None:
        """Open the first library that answers; a second of the same name is another one after a driver's upgrade."""
        errors: dict[str, Exception] = {}
        for source in self._sources():
            try:
                if source is not self._opened:
                    _load(source)
                pynvml.nvmlInit()
            except (pynvml.NVMLError, OSError) as error:
                self._opened = _UNKNOWN
                errors[_name(source)] = error
                continue
            self._is_open, self._opened, self.is_outdated = True, source, False
            self._note(_describe_found(source))
            return
        search = _explain(errors, self._roots(), is_named=self._root is not None)
        self.found, self.told, self.is_outdated = None, search.tell(), search.mismatch
        raise NoAnswer(self.told)

    def _sources(self) -> Iterator[_Source]:
        if self._opened is not _UNKNOWN:
            yield self._opened
        if self._root is None:
            yield None
        yield from driver_files.list_candidates(self._roots())

    def _roots(self) -> tuple[Path, ...]:
        return driver_files.ROOTS if self._root is None else (self._root,)

    def _note(self, found: Found) -> None:
        if found != self.found:
            log.info("%s", found.tell())
        self.found, self.told = found, found.tell()

    def close(self) -> None:
        """Free the events and the library; may be called again."""
        if self._events is not None:
            with _passing_over("the event set"):
                pynvml.nvmlEventSetFree(self._events)
        if self._is_open:
            with _passing_over("the library"):
                pynvml.nvmlShutdown()
        self._events, self._is_open = None, False

    def listen(self, handles: Mapping[str, Handle]) -> None:
        """Ask for the XIDs of these GPUs; a card or library without events is left out."""
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            log.info("no events from this NVML (%s): GPUs are polled only", error)
            return
        for uuid, handle in handles.items():
            with _passing_over(f"events of {uuid}"):
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def wait_for_xid(self, seconds: float) -> Xid | None:
        """Wait in NVML for the next XID; return None at the end, or at once where there are no events."""
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
        uuid = _ask(pynvml.nvmlDeviceGetUUID, event.device)
        return Xid(None if uuid is None else _text(uuid), int(event.eventData))


def _load(source: _Source) -> None:
    """Make pynvml use this library; it loads the loader's own by itself where it has none."""
    pynvml.nvmlLib = None if source is None else ctypes.CDLL(str(source.file))
    pynvml._nvmlGetFunctionPointer_cache.clear()  # else it would go on calling the former library


def _name(source: _Source) -> str:
    return f"the loader's own {driver_files.LIBRARY}" if source is None else str(source.file)


def _describe_found(source: _Source) -> Found:
    version = _ask(pynvml.nvmlSystemGetDriverVersion)
    file = _file_of(pynvml.nvmlLib) if source is None else source.file
    return Found(file, None if source is None else source.root, _text(version or ""))


class _Symbol(ctypes.Structure):
    """What `dladdr` answers."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(library: Any) -> Path | None:
    """Return the file of a loaded library; None where the loader does not say."""
    if library is None:
        return None
    symbol = _Symbol()
    address = ctypes.cast(library.nvmlInitWithFlags, ctypes.c_void_p)
    told = ctypes.CDLL(None).dladdr(address, ctypes.byref(symbol))
    return Path(symbol.file.decode(errors="replace")) if told and symbol.file else None


def _explain(errors: Mapping[str, Exception], roots: tuple[Path, ...], *, is_named: bool) -> Search:
    told = [error for error in errors.values() if isinstance(error, pynvml.NVMLError)]
    return Search(
        tried=tuple((name, str(error)) for name, error in errors.items()),
        roots=roots,
        mismatch=any(isinstance(error, pynvml.NVMLError_LibRmVersionMismatch) for error in told),
        loaded=any(not isinstance(error, pynvml.NVMLError_LibraryNotFound) for error in told),
        module=driver_files.read_module_version(),
        is_named=is_named,
        control=driver_files.look_at_node(driver_files.CONTROL_NODE),
        node_is_mounted=driver_files.find_mounted_node() is not None,
    )


def find(index: int) -> Handle:
    """Return the GPU of that number; raises NoAnswer."""
    with _answering(f"GPU {index}"):
        return pynvml.nvmlDeviceGetHandleByIndex(index)


def read_uuid(handle: Handle) -> str:
    """Return the UUID of a GPU or MIG instance; raises NoAnswer."""
    with _answering("a GPU"):
        return _text(pynvml.nvmlDeviceGetUUID(handle))


def check(handle: Handle) -> None:
    """Raise NoAnswer where the GPU is off the bus.

    Asks for its memory, which a lost card cannot tell; to have none of its own (GB10) is an answer.
    """
    with _answering("the GPU"), contextlib.suppress(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryInfo(handle)


def describe(handle: Handle) -> Description:
    """Return what a GPU is; raises NoAnswer where it does not answer at all."""
    with _answering("the GPU"):
        major_minor = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle, errors=_UNTOLD)
        pci = _ask(lambda: _text(pynvml.nvmlDeviceGetPciInfo(handle).busId), errors=_UNTOLD) or ""
        memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, errors=_UNTOLD)
        return Description(
            uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
            model=_text(pynvml.nvmlDeviceGetName(handle)),
            memory_bytes=0 if memory is None else int(memory.total),
            compute="" if major_minor is None else "{}.{}".format(*major_minor),
            pci=pci,
            numa=_numa(handle, pci),
            minor=_ask(pynvml.nvmlDeviceGetMinorNumber, handle, errors=_UNTOLD),
            mig=_has_mig(handle, errors=_UNTOLD),
        )


def read_figures(handle: Handle) -> Figures:
    """Return what a GPU or MIG instance is doing."""
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


def read_compute_mode(handle: Handle) -> str:
    """Return how many processes may use a GPU, in nvidia-smi's words; empty where it does not say."""
    return _COMPUTE_MODES.get(_ask(pynvml.nvmlDeviceGetComputeMode, handle), "")


def list_processes(handle: Handle) -> set[int]:
    """Return the processes that compute on a GPU; empty where it does not say."""
    return {int(one.pid) for one in _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()}


def list_instances(handle: Handle) -> list[Handle]:
    """Return the MIG instances of a GPU; empty where it has none."""
    if not _has_mig(handle):
        return []
    most = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    parts = (_ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(most))
    return [part for part in parts if part is not None]


def _has_mig(handle: Handle, errors: tuple[type[Exception], ...] = (pynvml.NVMLError,)) -> bool:
    mode = _ask(pynvml.nvmlDeviceGetMigMode, handle, errors=errors)
    return mode is not None and bool(mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE)


def _numa(handle: Handle, pci: str) -> int | None:
    """Return NVML's own answer, else the kernel's, where -1 means unknown."""
    told = _ask(pynvml.nvmlDeviceGetNumaNodeId, handle, errors=_UNTOLD)
    if told is not None and int(told) != _NO_NUMA:
        return int(told)
    domain, _, rest = pci.lower().partition(":")
    try:
        node = int((_PCI_DEVICES / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _ask(
    question: Callable[..., T], *arguments: Any, errors: tuple[type[Exception], ...] = (pynvml.NVMLError,)
) -> T | None:
    """Return the answer, or None where it is one of these errors."""
    try:
        return question(*arguments)
    except errors:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@contextlib.contextmanager
def _answering(name: str) -> Iterator[None]:
    """Turn an NVML error into NoAnswer."""
    try:
        yield
    except pynvml.NVMLError as error:
        raise NoAnswer(f"{name} does not answer: {error}") from error


@contextlib.contextmanager
def _passing_over(name: str) -> Iterator[None]:
    """Log an NVML error and go on."""
    try:
        yield
    except pynvml.NVMLError as error:
        log.info("NVML says of %s: %s", name, error)

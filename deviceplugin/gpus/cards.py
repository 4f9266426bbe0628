"""The cards of this node as the room knows them, through `adapters.nvml`.

All calls come from one thread, since a rescan closes the library for every other user.
"""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from adapters import nvml
from adapters.nvml import Handle, NoAnswer, Xid
from contract.sharing.inventory import Gpu
from deviceplugin.errors import GpuGone, NvmlUnavailable

log = logging.getLogger(__name__)


class GpuLibrary(Protocol):
    """The questions that the monitor asks NVML."""

    def rescan(self) -> list[Gpu]:
        """Return all GPUs that answer now, including GPUs that came back."""

    def check(self, uuid: str) -> None:
        """Raise `GpuGone` where the GPU does not answer."""

    def wait_for_xid(self, seconds: float) -> Xid | None:
        """Return the next XID, or None when the time is over."""

    def close(self) -> None:
        """Close the library."""

    def tell(self) -> str:
        """Return in one sentence which library answers, or why none does and what to do."""

    def needs_new_container(self) -> bool:
        """Return whether the driver was upgraded under this container."""


class Nvml:
    """The real library, or the software GPU's."""

    def __init__(self, driver_root: Path | None = None) -> None:
        self._library = nvml.Library(driver_root)
        self._handles: dict[str, Handle] = {}

    def rescan(self) -> list[Gpu]:
        """Open the library again and describe every GPU; raise `NvmlUnavailable`."""
        self.close()
        try:
            count = self._library.open()
        except NoAnswer as error:
            raise NvmlUnavailable(str(error)) from error
        gpus = [gpu for index in range(count) if (gpu := self._find(index)) is not None]
        self._library.listen(self._handles)
        return gpus

    def _find(self, index: int) -> Gpu | None:
        try:
            handle = nvml.find(index)
            gpu = Gpu(**asdict(nvml.describe(handle)))
        except NoAnswer as error:
            log.warning("GPU %d is not used: %s", index, error)
            return None
        self._handles[gpu.uuid] = handle
        return gpu

    def check(self, uuid: str) -> None:
        """Raise `GpuGone` where the GPU does not answer, or was not there at the last scan."""
        handle = self._handles.get(uuid)
        if handle is None:
            raise GpuGone(f"GPU {uuid} is not there")
        try:
            nvml.check(handle)
        except NoAnswer as error:
            raise GpuGone(f"GPU {uuid}: {error}") from error

    def compute_modes(self) -> dict[str, str]:
        """Return how many processes may use each GPU, in nvidia-smi's words."""
        return {uuid: nvml.read_compute_mode(handle) for uuid, handle in self._handles.items()}

    def wait_for_xid(self, seconds: float) -> Xid | None:
        """Wait in NVML.  Where its events fail, polling finds the trouble."""
        return self._library.wait_for_xid(seconds)

    def close(self) -> None:
        """Free the library; may be called again."""
        self._library.close()
        self._handles = {}

    def tell(self) -> str:
        """Return in one sentence which library answers, or why none does and what to do."""
        return self._library.told

    def needs_new_container(self) -> bool:
        """Return whether the driver was upgraded under this container."""
        return self._library.is_outdated

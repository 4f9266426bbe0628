"""Stand-ins for what the room's Protocols name: GPUs without a library, and a recorder that remembers.

Owns no behaviour of ours.  May import `deviceplugin`.
"""

import queue
import threading
from dataclasses import dataclass, field

from contract.reasons import Refusal
from deviceplugin.allocation import Allocation
from deviceplugin.errors import GpuGone, NvmlUnavailable
from deviceplugin.inventory import Gpu, Inventory, Rules, take_stock
from deviceplugin.nvml import Xid


def make_gpu(number: int, **other: object) -> Gpu:
    """GPU-0000…number."""
    values: dict[str, object] = {
        "uuid": f"GPU-{number:08x}-0000-0000-0000-000000000000",
        "model": "Test GPU",
        "memory_bytes": 16 << 30,
        "compute": "9.0",
    }
    return Gpu(**(values | other))  # type: ignore[arg-type]


def make_inventory(gpus: int, slots: int = 10) -> Inventory:
    """So many equal GPUs."""
    return take_stock([make_gpu(number) for number in range(gpus)], Rules(slots=slots))


class FakeLibrary:
    """GPUs that come, go and raise XIDs when told to."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = {gpu.uuid: gpu for gpu in gpus}
        self.answers = True
        self._xids: queue.Queue[Xid] = queue.Queue()

    def rescan(self) -> list[Gpu]:
        if not self.answers:
            raise NvmlUnavailable("NVML does not answer")
        return list(self.gpus.values())

    def check(self, uuid: str) -> None:
        if uuid not in self.gpus:
            raise GpuGone(f"GPU {uuid} is not there")

    def wait_for_xid(self, seconds: float) -> Xid | None:
        try:
            return self._xids.get(timeout=seconds)
        except queue.Empty:
            return None

    def raise_xid(self, uuid: str | None, number: int) -> None:
        self._xids.put(Xid(uuid, number))

    def close(self) -> None:
        pass


@dataclass
class MemoryRecorder:
    """Remembers every call, and lets a test wait for one."""

    calls: list[tuple[object, ...]] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def _note(self, *call: object) -> None:
        with self._news:
            self.calls.append(call)
            self._news.notify_all()

    def wait_for(self, *call: object, seconds: float = 10.0) -> None:
        """Returns as soon as such a call was made; its first words are enough."""
        with self._news:
            assert self._news.wait_for(lambda: any(seen[: len(call)] == call for seen in self.calls), seconds), (
                f"{call} was not recorded, but {self.calls}"
            )

    def allocated(self, allocation: Allocation) -> None:
        self._note("allocated", allocation.device_ids)

    def refused(self, refusal: Refusal) -> None:
        self._note("refused", str(refusal.code))

    def took(self, call: str, seconds: float) -> None:
        """Not of interest."""

    def registered(self, cause: str) -> None:
        self._note("registered", cause)

    def lost(self, cause: str) -> None:
        self._note("lost", cause)

    def gpu_refused(self, uuid: str, refusal: Refusal) -> None:
        self._note("gpu_refused", uuid, str(refusal.code))

    def gpu_unhealthy(self, uuid: str, why: str) -> None:
        self._note("gpu_unhealthy", uuid, why)

    def gpu_recovered(self, uuid: str) -> None:
        self._note("gpu_recovered", uuid)

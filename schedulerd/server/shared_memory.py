"""The shared memory of a container: its gate, which the daemon writes, and its ledger, which its processes write.

The rule it owns: a gate's word changes first, then the processes that sleep on it are woken.  The layouts are the
contract's.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from contract.wire import shared_memory as layout

_SEAL_FUTURE_WRITE = 0x0010
_FUTEX_WAKE = 1
_SLOTS_USED_AT = 16
_NANOSECONDS = struct.Struct("=Q")
_EVERYBODY = 0x7FFFFFFF
_FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]
# Waking never waits, so the interpreter's lock is kept: letting go of it and taking it again would cost as much.
_syscall = ctypes.PyDLL(None).syscall


class SharedMemory:
    """A container's gate and ledger, open as long as a process of it is connected."""

    __slots__ = ("_gate_map", "_gpus", "_ledger_map", "_slots_used", "_words", "gate", "ledger")

    def __init__(self, container: str, gpus: tuple[str, ...]) -> None:
        """Create both files; raise OSError where no descriptor or memory is left, and leave nothing open then."""
        with ExitStack() as undoing:
            self._make(container, gpus, undoing)
            undoing.pop_all()

    def _make(self, container: str, gpus: tuple[str, ...], undoing: ExitStack) -> None:
        places = {uuid: layout.gate_word(index) for index, uuid in enumerate(gpus)}
        self._gpus = len(gpus)
        self._slots_used = 0
        self.gate = _create(f"nvshare-gate:{container}", layout.gate_size(len(gpus)), undoing)
        self._gate_map = mmap.mmap(self.gate, layout.gate_size(len(gpus)))
        struct.pack_into("=8sI", self._gate_map, 0, layout.GATE_MAGIC, len(gpus))
        words = {uuid: ctypes.c_uint32.from_buffer(self._gate_map, at) for uuid, at in places.items()}
        self._words = {uuid: (word, _waker(word)) for uuid, word in words.items()}
        """The word of each GPU, and the call that wakes the processes that sleep on it."""
        # The one writable map exists by now; every later one is refused.
        _seal(self.gate, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
        self.ledger = _create(f"nvshare-ledger:{container}", layout.ledger_size(len(gpus)), undoing)
        self._ledger_map = mmap.mmap(self.ledger, layout.ledger_size(len(gpus)))
        struct.pack_into("=8sII", self._ledger_map, 0, layout.LEDGER_MAGIC, len(gpus), layout.LEDGER_SLOTS)
        _seal(self.ledger, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)

    def set_word(self, gpu: str, value: int) -> None:
        """Open the gate of a GPU for a turn, and wake the processes that sleep on it; or close it, with 0."""
        word, wake = self._words[gpu]
        word.value = value
        if value:
            wake()

    def own_slot(self, slot: int, owner: int) -> None:
        """Clear a ledger slot and write its owner; 0 frees it."""
        if owner and slot >= self._slots_used:
            # Byte 16 of the header: how many slots need be summed.
            self._slots_used = slot + 1
            struct.pack_into("=I", self._ledger_map, _SLOTS_USED_AT, self._slots_used)
        size = layout.ledger_slot_size(self._gpus)
        at = layout.ledger_slot(self._gpus, slot)
        self._ledger_map[at : at + size] = struct.pack("=Q", owner).ljust(size, b"\0")

    def in_flight(self, slot: int) -> dict[str, tuple[float, float]]:
        """Return by GPU what the process of a slot tells: its seconds in flight, and its longest launch."""
        told: dict[str, tuple[float, float]] = {}
        for index, gpu in enumerate(self._words):
            at = layout.ledger_line(self._gpus, slot, index)
            (busy,) = _NANOSECONDS.unpack_from(self._ledger_map, at + layout.LEDGER_IN_FLIGHT)
            (longest,) = _NANOSECONDS.unpack_from(self._ledger_map, at + layout.LEDGER_LONGEST)
            told[gpu] = (busy / 1e9, longest / 1e9)
        return told

    def close(self) -> None:
        """Close every gate and both files; processes keep their own maps."""
        for gpu in self._words:
            self.set_word(gpu, 0)
        self._words.clear()
        self._gate_map.close()
        self._ledger_map.close()
        os.close(self.gate)
        os.close(self.ledger)


def _waker(word: ctypes.c_uint32) -> Callable[[], int]:
    """Return the call that wakes the processes that sleep on a word."""
    return partial(_syscall, _FUTEX, ctypes.c_void_p(ctypes.addressof(word)), _FUTEX_WAKE, _EVERYBODY)


def _create(name: str, size: int, undoing: ExitStack) -> int:
    descriptor = os.memfd_create(name[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    undoing.callback(os.close, descriptor)
    os.ftruncate(descriptor, size)
    return descriptor


def _seal(descriptor: int, seals: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)

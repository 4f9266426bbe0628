"""What a daemon leaves behind for the next one: which GPUs had holders, in a small file that outlives any kill.

Owns the question that a new daemon must answer before its first grant: may anybody still be on this GPU?  A GPU that
nobody held is free at once; so is every GPU after a reboot.
May import the standard library only.
"""

import mmap
import os
import struct
from pathlib import Path

Seconds = float
_MAGIC = b"NVSFOOT1"
_SLOTS = 256
_HEADER = struct.Struct("=8s40s")
_SLOT = struct.Struct("=64sIId")
_FIRST = 64
_SIZE = _FIRST + _SLOTS * _SLOT.size
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_COUNT_AT = 64
UNKNOWN = 1 << 30
"""Nobody knows how many there were."""


class Footprint:
    """A mapped file, one slot a GPU: how many containers have it, and until when it was shut before."""

    def __init__(self, path: Path, *, now: Seconds, window: Seconds) -> None:
        self._now, self._window = now, window
        self.before = _read(path)
        self._places: dict[str, int] = {}
        self._words: dict[str, int] = {}
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._counts = memoryview(self._map).cast("I")
        for uuid in self.before:
            self._place(uuid)
        for uuid in self.before:
            self._write_shut(uuid)
        # Last, so that a daemon that dies up to here leaves the old footprint readable.
        self._map[: _HEADER.size] = _HEADER.pack(_MAGIC, _boot_id())

    def left_behind(self, uuid: str) -> tuple[Seconds, int]:
        """Until when a GPU stays shut, and how many containers may still be on it."""
        count, shut_until = self.before.get(uuid, (0, 0.0))
        if count == 0 and shut_until <= self._now:
            return -float("inf"), 0
        until = self._now + self._window if count else shut_until
        return until, count if shut_until <= self._now else UNKNOWN

    def count(self, uuid: str, change: int) -> None:
        """A container got a GPU, or lost it."""
        place = self._words.get(uuid)
        if place is None:
            place = self._words[uuid] = (self._place(uuid) + _COUNT_AT) // 4
        self._counts[place] += change

    def _place(self, uuid: str) -> int:
        place = self._places.get(uuid)
        if place is None:
            place = self._places[uuid] = _FIRST + min(len(self._places), _SLOTS - 1) * _SLOT.size
            _SLOT.pack_into(self._map, place, uuid.encode()[:64], 0, 0, 0.0)
        return place

    def _write_shut(self, uuid: str) -> None:
        until, _ = self.left_behind(uuid)
        struct.pack_into("=d", self._map, self._place(uuid) + _SLOT.size - 8, max(0.0, until))


def _boot_id() -> bytes:
    return _BOOT_ID.read_bytes().strip()[:40]


def _read(path: Path) -> dict[str, tuple[int, Seconds]]:
    """Of each GPU: how many had it, and until when it was shut; nothing after a reboot."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    if len(raw) != _SIZE or _HEADER.unpack_from(raw) != (_MAGIC, _boot_id().ljust(40, b"\0")):
        return {}
    found: dict[str, tuple[int, Seconds]] = {}
    for slot in range(_SLOTS):
        name, count, _, shut_until = _SLOT.unpack_from(raw, _FIRST + slot * _SLOT.size)
        if name.rstrip(b"\0"):
            found[name.rstrip(b"\0").decode()] = (count, shut_until)
    return found

"""What a daemon leaves behind for the next one: who had which GPU, in a small file that outlives any kill.

Owns the question that a new daemon must answer before its first grant: may anybody still be on this GPU?  A GPU that
nobody held is free at once; so is every GPU after a reboot.  In a file of another version anybody may be on any.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path

from schedulerd.core.model import UNKNOWN, UNKNOWN_HOLDER

Seconds = float
Pids = tuple[int, ...]
_MAGIC = b"NVSFOOT4"
_GPUS = 256
_HOLDERS = 12
_PIDS = 15
"""Those of further processes are not kept, only how many they are."""
_NAME = 128
_HEADER = struct.Struct("=8s40s")
_FIRST = 64
_GPU = struct.Struct("=64sI4x")
_HOLDER = struct.Struct(f"={_NAME}sI{_PIDS}I")
_HOLDER_SIZE = _HOLDER.size
_GPU_SIZE = _GPU.size + _HOLDERS * _HOLDER_SIZE
_SIZE = _FIRST + _GPUS * _GPU_SIZE
_COUNT_AT = 64
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NOBODY: Mapping[str, Pids] = {}
ANYBODY: Mapping[str, Pids] = {UNKNOWN_HOLDER: (UNKNOWN,)}


@dataclass(slots=True)
class Place:
    """Where a GPU stands in the file, and who has it now."""

    at: int
    count: int
    """The word that says how many holders follow."""
    holders: dict[str, Pids] = field(default_factory=dict)


class Footprint:
    """A mapped file, one place a GPU."""

    def __init__(self, path: Path, *, now: Seconds, window: Seconds) -> None:
        self._now, self._window = now, window
        raw = _read_of_this_boot(path)
        is_ours = len(raw) == _SIZE and raw.startswith(_MAGIC)
        self.before = _read_places(raw) if is_ours else {}
        self._otherwise = ANYBODY if raw and not is_ours else NOBODY
        self._places: dict[str, Place] = {}
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not is_ours:
                os.ftruncate(descriptor, 0)  # nothing of it is to be read as ours
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._map).cast("I")
        # They stand where they stood, and stay there until they are accounted for: who comes after this daemon, however
        # soon, is to know of them too.
        for uuid, holders in self.before.items():
            self._places[uuid] = _nth_place(len(self._places), dict(holders))
        # Last, so that a daemon that dies up to here leaves the old footprint readable.
        self._map[: _HEADER.size] = _HEADER.pack(_MAGIC, _boot_id())

    def left_behind(self, uuid: str) -> tuple[Seconds, Mapping[str, Pids]]:
        """Until when a GPU stays shut, and which containers may still be on it, with which processes each."""
        before = self.before.get(uuid, self._otherwise)
        if before is ANYBODY:
            self.mark(uuid, UNKNOWN_HOLDER, ANYBODY[UNKNOWN_HOLDER])  # the daemon after this one must know it too
        return (self._now + self._window, before) if before else (-float("inf"), NOBODY)

    def mark(self, uuid: str, container: str, pids: Pids) -> None:
        """A container has a GPU from now on, with these processes; none: it has it no more."""
        place = self._places.get(uuid) or self._place(uuid)
        holders = place.holders
        if pids:
            holders[container] = pids
        else:
            holders.pop(container, None)
            self._words[place.count] = len(holders)  # first, so that nobody is counted whose name is written over
            if not holders:
                return
        at = place.at + _GPU.size
        for name in islice(holders, _HOLDERS):
            self._map[at : at + _HOLDER_SIZE] = _holder(name, holders[name])
            at += _HOLDER_SIZE
        if pids:
            self._words[place.count] = len(holders)

    def _place(self, uuid: str) -> Place:
        place = self._places[uuid] = _nth_place(min(len(self._places), _GPUS - 1), {})
        _GPU.pack_into(self._map, place.at, uuid.encode()[:64], 0)
        return place


def _nth_place(number: int, holders: dict[str, Pids]) -> Place:
    at = _FIRST + number * _GPU_SIZE
    return Place(at, (at + _COUNT_AT) // 4, holders)


@lru_cache(maxsize=4096)
def _holder(container: str, pids: Pids) -> bytes:
    kept = pids[:_PIDS]
    return _HOLDER.pack(_short(container), len(pids), *kept, *(0,) * (_PIDS - len(kept)))


def _short(container: str) -> bytes:
    """A name that fits; a longer one by its beginning and a checksum, filling the place: it is read as somebody's."""
    raw = container.encode()
    return raw if len(raw) < _NAME else raw[: _NAME - 9] + f"~{zlib.crc32(raw):08x}".encode()


def _boot_id() -> bytes:
    return _BOOT_ID.read_bytes().strip()[:40]


def _read_of_this_boot(path: Path) -> bytes:
    """The file, of whatever version; nothing after a reboot."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return b""
    is_whole = len(raw) >= _HEADER.size
    return raw if is_whole and _HEADER.unpack_from(raw)[1] == _boot_id().ljust(40, b"\0") else b""


def _read_places(raw: bytes) -> dict[str, dict[str, Pids]]:
    """Of each GPU: who had it."""
    places = (_FIRST + number * _GPU_SIZE for number in range(_GPUS))
    return {name: _read_place(raw, at) for at in places if (name := raw[at : at + 64].rstrip(b"\0").decode())}


def _read_place(raw: bytes, at: int) -> dict[str, Pids]:
    _, count = _GPU.unpack_from(raw, at)
    holders = dict(ANYBODY) if count > _HOLDERS else {}
    for index in range(min(count, _HOLDERS)):
        name, number, *pids = _HOLDER.unpack_from(raw, at + _GPU.size + index * _HOLDER.size)
        unnamed = (UNKNOWN,) * (number - _PIDS)
        key = name.rstrip(b"\0").decode(errors="replace") if len(name.rstrip(b"\0")) < _NAME else UNKNOWN_HOLDER
        holders[key] = (*pids[: min(number, _PIDS)], *unnamed)
    return holders

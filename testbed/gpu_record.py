"""Read the software GPU's record: which process executed when, and whose memory was resident when.

The module opens the shared file by itself, read-only, from any process, also after all others have ended.  It needs
none of the C code.  It owns the file's byte layout on Python's side.  The other side is
`simgpu/src/shared/file/layout.h`, and a test compares them.  Times are seconds on CLOCK_MONOTONIC, as
`time.monotonic()` gives them.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x3155504753424731
VERSION = 3
SLOTS, CONTEXTS, CAST = 256, 256, 65536

_HEADER = struct.Struct("<QII QQQ 40s 11Q")
_PHYSICS = struct.Struct("<QQ QQQQ d II Q")
_CARD = struct.Struct("<64s 16s Q 2I 2I 2I 2I i 3I")
_CORE = struct.Struct("<QII 4Q")
_DEVICE = struct.Struct("<ii QQ QQ QQ QQIIQ")
_INTERVAL = struct.Struct("<QQIIQ")
_RESIDENCY = struct.Struct("<QIIQQQ")
_CAST_ENTRY = struct.Struct("<IIII QQ QQ 64s")


class RecordError(Exception):
    """The file cannot be read as a record; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A context: its process, its label and its device."""

    serial: int
    label: str
    """SIMGPU_LABEL of its process, or its process id where that was not set."""
    pid: int
    device: int
    born: float
    died: float | None


@dataclass(frozen=True, slots=True)
class Interval:
    """A context executed on a device without a gap."""

    start: float
    end: float
    owner: Owner
    kernels: int
    """How many kernels ended in it."""
    paged_bytes: int

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Residency:
    """How much of a context's memory was on the device from this moment on."""

    at: float
    owner: Owner
    resident_bytes: int
    managed_bytes: int
    plain_bytes: int


@dataclass(frozen=True, slots=True)
class Card:
    """One device as configured."""

    index: int
    name: str
    uuid: str
    memory_bytes: int
    numa_node: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two different labels executed on one device at the same time."""

    start: float
    end: float
    first: Owner
    second: Owner


def _uuid(raw: bytes) -> str:
    text = raw.hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")


class Record:
    """The record of one shared file, as it is at the moment of each call."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            with self._path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise RecordError(f"cannot read {path}: {error}; name the SIMGPU_FILE of the programs") from error
        if len(self._data) < 4096:
            raise RecordError(f"{path} is not a simgpu file: too short; name the SIMGPU_FILE of the programs")
        fields = _HEADER.unpack_from(self._data, 0)
        if fields[0] != MAGIC or fields[1] != VERSION:
            raise RecordError(f"{path} is not a simgpu file of version {VERSION}; name the SIMGPU_FILE of the programs")
        self._devices, self._created = fields[2], fields[5] / 1e9
        self._at_cores, self._core_bytes, _, _, self._at_control, _, _, _, self._at_cast = fields[7:16]
        self._at_intervals, self._at_residency = fields[16:18]
        physics = _PHYSICS.unpack_from(self._data, _HEADER.size)
        self.speed: float = physics[6]
        self.slice_seconds: float = physics[0] / 1e9
        self._entries: int = physics[9]
        self.cards = [self._card(index) for index in range(self._devices)]

    def _card(self, index: int) -> Card:
        at = _HEADER.size + _PHYSICS.size + index * _CARD.size
        fields = _CARD.unpack_from(self._data, at)
        return Card(index, _text(fields[0]), _uuid(fields[1]), fields[2], fields[11])

    def _seconds(self, simulated_ns: int) -> float:
        return float(self._created + simulated_ns / 1e9 / self.speed)

    def _core(self) -> int:
        (active,) = struct.unpack_from("<I", self._data, self._at_control)
        return int(self._at_cores + (active & 1) * self._core_bytes)

    def _device_state(self, device: int) -> tuple[int, ...]:
        return _DEVICE.unpack_from(self._data, self._core() + _CORE.size + device * _DEVICE.size)

    @property
    def now(self) -> float:
        """The moment up to which the devices' state has been computed."""
        return self._seconds(_CORE.unpack_from(self._data, self._core())[0])

    def device_index(self, device: int | str) -> int:
        """Return the index of a device given by index or UUID."""
        for card in self.cards:
            if device in (card.index, card.uuid):
                return card.index
        raise RecordError(f"there is no device {device}; there are {', '.join(card.uuid for card in self.cards)}")

    def owner(self, serial: int) -> Owner:
        """Return the context with this serial."""
        fields = _CAST_ENTRY.unpack_from(self._data, self._at_cast + (serial % CAST) * _CAST_ENTRY.size)
        if fields[0] != serial:
            return Owner(serial, "?", 0, -1, 0.0, None)
        died = self._seconds(fields[5]) if fields[5] else None
        return Owner(serial, _text(fields[8]), fields[2], fields[1], self._seconds(fields[4]), died)

    def owners(self) -> list[Owner]:
        """List all contexts that ever were (the last 65,536 of them)."""
        (_, next_serial, *_) = _CORE.unpack_from(self._data, self._core())
        return [self.owner(serial) for serial in range(max(1, next_serial - CAST), next_serial)]

    def lost(self, device: int | str | None = None) -> int:
        """Count the entries that were overwritten because the record was full.  A test that meets a loss must fail."""
        wanted = range(self._devices) if device is None else [self.device_index(device)]
        written = [self._device_state(index)[6:8] for index in wanted]
        return sum(max(0, count - self._entries) for pair in written for count in pair)

    def intervals(self, device: int | str) -> list[Interval]:
        """List all execution on a device, in order of time."""
        index = self.device_index(device)
        state = self._device_state(index)
        written = state[6]
        base = self._at_intervals + index * self._entries * _INTERVAL.size
        rows = [
            _INTERVAL.unpack_from(self._data, base + (entry % self._entries) * _INTERVAL.size)
            for entry in range(max(0, written - self._entries), written)
        ]
        if state[10]:
            rows.append((state[8], state[9], state[10], state[11], state[12]))
        owners: dict[int, Owner] = {}
        return [self._interval(row, owners) for row in rows]

    def _interval(self, row: tuple[int, ...], owners: dict[int, Owner]) -> Interval:
        start, end, serial, kernels, paged = row
        owner = owners.get(serial) or owners.setdefault(serial, self.owner(serial))
        return Interval(self._seconds(start), self._seconds(end), owner, kernels, paged)

    def residency(self, device: int | str) -> list[Residency]:
        """List how much memory of each context was on the device, in order of time."""
        index = self.device_index(device)
        written = self._device_state(index)[7]
        base = self._at_residency + index * self._entries * _RESIDENCY.size
        rows = (
            _RESIDENCY.unpack_from(self._data, base + (entry % self._entries) * _RESIDENCY.size)
            for entry in range(max(0, written - self._entries), written)
        )
        return [Residency(self._seconds(at), self.owner(serial), *sizes) for at, serial, _, *sizes in rows]

    def switches(self, device: int | str) -> int:
        """Return how often the device changed from one context to another."""
        return self._device_state(self.device_index(device))[5]


def busy_share(intervals: Iterable[Interval], start: float, end: float) -> float:
    """Return the part of the time between two moments in which something executed."""
    inside = ((max(start, one.start), min(end, one.end)) for one in intervals)
    return sum(to - since for since, to in inside if to > since) / (end - start)


def busy_seconds(intervals: Iterable[Interval]) -> dict[str, float]:
    """Return the seconds of execution by label."""
    seconds: dict[str, float] = {}
    for one in intervals:
        seconds[one.owner.label] = seconds.get(one.owner.label, 0.0) + one.seconds
    return seconds


def overlaps(intervals: Iterable[Interval]) -> list[Overlap]:
    """List the times at which two labels executed at once; a device that shares by slices never shows any."""
    found: list[Overlap] = []
    last: Interval | None = None
    for one in sorted(intervals, key=lambda interval: interval.start):
        if last is not None and one.start < last.end and one.owner.label != last.owner.label:
            found.append(Overlap(one.start, min(one.end, last.end), last.owner, one.owner))
        if last is None or one.end > last.end:
            last = one
    return found


@dataclass(frozen=True, slots=True)
class Turn:
    """A span in which a label says it held the device alone (from the daemon's log, say)."""

    label: str
    start: float
    end: float


def outside_turns(intervals: Iterable[Interval], turns: Iterable[Turn]) -> list[tuple[Interval, float]]:
    """List the execution that happened while its label had no turn, with its seconds."""
    by_label: dict[str, list[Turn]] = {}
    for turn in turns:
        by_label.setdefault(turn.label, []).append(turn)
    found = ((one, one.seconds - _covered(one, by_label.get(one.owner.label, []))) for one in intervals)
    return [(one, seconds) for one, seconds in found if seconds > 1e-9]


def _covered(one: Interval, turns: Iterable[Turn]) -> float:
    parts = ((max(one.start, turn.start), min(one.end, turn.end)) for turn in turns)
    return sum(to - since for since, to in parts if to > since)


def interleavings(intervals: Iterable[Interval]) -> Iterator[tuple[str, float, float]]:
    """Yield each run of one label: label, start of its first interval, end of the last before another label's."""
    label, start, end = "", 0.0, 0.0
    for one in intervals:
        if one.owner.label != label:
            if label:
                yield label, start, end
            label, start = one.owner.label, one.start
        end = one.end
    if label:
        yield label, start, end

"""The load query: the scheduler's figures about each GPU, for the device plugin, over the control socket.

The plugin sends `load`.  The answer is one `gpu …` line a GPU, then `end age_ms=…`.  An unknown value is left out of
its line, never guessed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TypeVar

from contract.errors import BadLine
from contract.line import Line, decode, encode

T = TypeVar("T")

QUERY = encode(Line("load"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """The figures about one GPU at one moment."""

    uuid: str
    clients: int = 0
    """How many containers have it."""
    waiting: int = 0
    """How many containers wait for a turn on it."""
    busy: float = 0.0
    """Share of the last ten seconds in which a container held it, 0 to 1."""
    memory_used: int | None = None
    """Bytes."""
    memory_total: int | None = None
    """Bytes."""
    temperature: int | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""
    drained: bool = False
    """True after an operator has drained it, so that it gets no new work."""


@dataclass(frozen=True, slots=True)
class Load:
    """An answer: every GPU, and how old the figures from NVML are."""

    gpus: tuple[GpuLoad, ...]
    age_ms: int


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def _share(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


_READERS: dict[str, Callable[[str], object]] = {
    "uuid": str,
    "clients": _count,
    "waiting": _count,
    "busy": _share,
    "memory_used": _count,
    "memory_total": _count,
    "temperature": int,
    "power": float,
    "drained": _flag,
}
_WRITERS: dict[type, Callable[[object], str]] = {
    bool: lambda value: "1" if value else "0",
    float: lambda value: f"{value:.3f}",
}


def encode_load(load: Load) -> bytes:
    """Return the whole answer as bytes."""
    lines = [Line("gpu", _words(gpu)) for gpu in load.gpus]
    lines.append(Line("end", {"age_ms": str(load.age_ms)}))
    return b"".join(encode(line) for line in lines)


def _words(gpu: GpuLoad) -> dict[str, str]:
    values = ((item.name, getattr(gpu, item.name)) for item in fields(gpu))
    return {name: _WRITERS.get(type(value), str)(value) for name, value in values if value is not None}


def decode_load(lines: Iterable[bytes]) -> Load:
    """Read the answer in `lines`, up to and with the `end` line."""
    gpus: list[GpuLoad] = []
    for raw in lines:
        line = decode(raw)
        if line.verb == "end":
            return Load(tuple(gpus), _read(line, "age_ms", _count))
        if line.verb != "gpu":
            raise BadLine(f"a load answer holds 'gpu' and 'end' lines, not {line.verb!r}")
        gpus.append(_gpu(line))
    raise BadLine("a load answer broke off before its 'end' line")


def _gpu(line: Line) -> GpuLoad:
    if "uuid" not in line.words:
        raise BadLine("a 'gpu' line names no uuid")
    known = {key: _read(line, key, reader) for key, reader in _READERS.items() if key in line.words}
    return GpuLoad(**known)  # type: ignore[arg-type]  # the table's readers give each field its type


def _read(line: Line, key: str, reader: Callable[[str], T]) -> T:
    try:
        return reader(line.words[key])
    except KeyError:
        raise BadLine(f"a {line.verb!r} line names no {key}") from None
    except ValueError:
        raise BadLine(f"{key}={line.words[key]!r} in a {line.verb!r} line is not a value it can have") from None

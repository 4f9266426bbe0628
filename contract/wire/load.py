"""The load query: the scheduler's figures about each GPU, for the device plugin, over the control socket.

The plugin sends `load`.  The answer is one `gpu …` line a GPU, then `end age_ms=…`.  An unknown value is left out of
its line, never guessed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from contract.errors import BadLine
from contract.wire.form import COUNT, FLAG, NAME, NUMBER, SHARE, WHOLE, Form, Kind, read_word
from contract.wire.line import Line, decode, encode

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


_GPU = Form(
    "gpu",
    GpuLoad,
    {
        "uuid": NAME,
        "clients": COUNT,
        "waiting": COUNT,
        "busy": Kind(SHARE.allowed, SHARE.read, "{:.3f}".format),
        "memory_used": COUNT,
        "memory_total": COUNT,
        "temperature": WHOLE,
        "power": Kind(NUMBER.allowed, NUMBER.read, "{:.3f}".format),
        "drained": FLAG,
    },
    needs=("uuid",),
)


def encode_load(load: Load) -> bytes:
    """Return the whole answer."""
    lines = [_GPU.write(gpu) for gpu in load.gpus]
    lines.append(Line("end", {"age_ms": str(load.age_ms)}))
    return b"".join(encode(line) for line in lines)


def decode_load(lines: Iterable[bytes]) -> Load:
    """Return the answer in `lines`; read up to and with the `end` line."""
    gpus: list[GpuLoad] = []
    for raw in lines:
        line = decode(raw)
        if line.verb == "end":
            return Load(tuple(gpus), read_word(line, "age_ms", COUNT))
        if line.verb != "gpu":
            raise BadLine(f"a load answer holds 'gpu' and 'end' lines, not {line.verb!r}")
        gpus.append(_GPU.read(line))
    raise BadLine("a load answer broke off before its 'end' line")

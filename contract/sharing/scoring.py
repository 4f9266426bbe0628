"""Express the load of a GPU as one penalty: the load-aware part of the placement.

A figure that is not known of every GPU is left out for all of them.  An unknown figure is never guessed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields

from contract.errors import BadValue
from contract.wire.load import GpuLoad

_HOT_CELSIUS = 100.0
_STRONG_WATTS = 1000.0
_LARGEST_WEIGHT = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The cost of one whole unit of each figure; each figure runs from 0 to 1."""

    taken: float = 1.0
    """Share of the GPU's slots that are taken.  It spreads a burst of pods while the other figures lag behind."""
    busy: float = 1.0
    """Share of the last ten seconds in which a container held it."""
    waiting: float = 0.5
    """Containers that wait for a turn: w/(w+1)."""
    memory: float = 0.5
    """Share of its memory in use."""
    temperature: float = 0.1
    """Degrees Celsius of 100."""
    power: float = 0.1
    """Watts of 1000."""

    @classmethod
    def default_text(cls) -> list[str]:
        """Return the defaults as they are written."""
        return [f"{item.name}={item.default}" for item in fields(cls)]

    @classmethod
    def read(cls, text: str) -> "Weights":
        """Read a text such as `busy=2,power=0`.  A figure that is not named keeps its default; `default` names none."""
        known = {item.name for item in fields(cls)}
        found: dict[str, float] = {}
        for entry in () if text == "default" else text.split(","):
            name, _, number = entry.strip().partition("=")
            if name not in known or name in found:
                raise BadValue(
                    f"weights {entry!r} is not allowed. Name each of {', '.join(sorted(known))} once at most."
                )
            found[name] = _weight(number, name)
        return cls(**found)


def _weight(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= _LARGEST_WEIGHT:
        raise BadValue(f"weights {name}={text!r} is not allowed. Give a number from 0 to {_LARGEST_WEIGHT:g}.")
    return value


def _memory(load: GpuLoad) -> float | None:
    if load.memory_used is None or not load.memory_total:
        return None
    return load.memory_used / load.memory_total


FIGURES: Mapping[str, Callable[[GpuLoad], float | None]] = {
    "busy": lambda load: load.busy,
    "waiting": lambda load: load.waiting / (load.waiting + 1),
    "memory": _memory,
    "temperature": lambda load: None if load.temperature is None else load.temperature / _HOT_CELSIUS,
    "power": lambda load: None if load.power is None else load.power / _STRONG_WATTS,
}


def score(loads: Iterable[GpuLoad], weights: Weights) -> dict[str, dict[str, float]]:
    """Return each GPU's weighted figures by UUID and name; use only figures that are known of all GPUs."""
    known = tuple(loads)
    scores: dict[str, dict[str, float]] = {load.uuid: {} for load in known}
    for name, read in FIGURES.items():
        values = {load.uuid: read(load) for load in known}
        if all(value is not None for value in values.values()):
            for uuid, value in values.items():
                scores[uuid][name] = (value or 0.0) * getattr(weights, name)
    return scores


def penalties(loads: Iterable[GpuLoad], weights: Weights) -> dict[str, float]:
    """Return each GPU's penalty without its taken slots, which are counted at the moment of the choice."""
    return {uuid: sum(parts.values()) for uuid, parts in score(loads, weights).items()}

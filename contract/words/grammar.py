"""The values that our labels and annotations may take: one table, read by every room.

An unknown value is an error that lists the allowed values, never a silent default.  An unknown `nvshare.com/` key is an
error too.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from contract.errors import BadQuantity, BadValue
from contract.words import limits, names
from contract.words.quantity import parse_quantity


class Injection(StrEnum):
    """A namespace's opt-in."""

    ENABLED = "enabled"
    WARN = "warn"


class Mode(StrEnum):
    """How a container uses its GPUs."""

    SINGLE = "single"
    GANG = "gang"
    PER_DEVICE = "per-device"


class OnMultiGpu(StrEnum):
    """The treatment of a container that asks for several vGPUs and names no mode."""

    REJECT = "reject"
    REDUCE = "reduce"


class Exemption(StrEnum):
    """Something that a namespace may allow its vGPU pods to do."""

    PRIVILEGED = "privileged"
    HOST_PID = "host-pid"
    HOST_IPC = "host-ipc"
    HOST_PATH = "host-path"


class AllocationKind(StrEnum):
    """The memory that the hook gives out."""

    MANAGED = "managed"
    PLAIN = "plain"


class OnLoss(StrEnum):
    """The choice of a container while its node's scheduler stays away."""

    WAIT = "wait"
    RUN = "run"


# How much the hook says: the values of NVSHARE_LOG.
LOG_QUIET = "quiet"
LOG_SUMMARY = "summary"
LOG_DEBUG = "debug"

_DURATION = re.compile(r"([1-9][0-9]{0,6})(ms|s)", re.ASCII)
_WHOLE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Word:
    """One label or annotation: its allowed values in words, and the function that reads them."""

    key: str
    allowed: str
    read: Callable[[str], object]


def _one_of(kind: type[StrEnum]) -> tuple[str, Callable[[str], StrEnum]]:
    def read(text: str) -> StrEnum:
        return kind(text)

    return " or ".join(kind), read


def read_quantum_ms(text: str) -> int:
    """Read the milliseconds in a duration such as `500ms` or `30s`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    milliseconds = int(match.group(1)) * (1000 if match.group(2) == "s" else 1)
    if not limits.SHORTEST_QUANTUM_MS <= milliseconds <= limits.LONGEST_QUANTUM_MS:
        raise ValueError(text)
    return milliseconds


def read_weight(text: str) -> int:
    """Read a share of GPU time."""
    return _whole(text, limits.LARGEST_WEIGHT)


def read_count(text: str) -> int:
    """Read a number of vGPUs."""
    return _whole(text, limits.LARGEST_COUNT)


def _whole(text: str, largest: int) -> int:
    if not _WHOLE.fullmatch(text) or int(text) > largest:
        raise ValueError(text)
    return int(text)


def read_memory_bytes(text: str) -> int:
    """Read the bytes in a quantity such as `8Gi` or `1.5Gi`; they must be whole and positive."""
    amount: Fraction = parse_quantity(text)
    if not 0 < amount <= parse_quantity(limits.LARGEST_MEMORY) or amount.denominator != 1:
        raise ValueError(text)
    return int(amount)


LONGEST_LIST = 256
"""The most characters of a comma list."""


def read_exemptions(text: str) -> frozenset[Exemption]:
    """Read a comma list of exemptions; spaces around an entry are allowed."""
    if len(text) > LONGEST_LIST:
        raise ValueError(text)
    return frozenset(Exemption(part.strip()) for part in text.split(","))


_MODES = f"{Mode.GANG} or {Mode.PER_DEVICE}"


def _read_mode(text: str) -> Mode:
    mode = Mode(text)
    if mode is Mode.SINGLE:
        raise ValueError(text)
    return mode


_MEMORY_FORM = f"a Kubernetes quantity of whole bytes from 1 to {limits.LARGEST_MEMORY}, such as 8Gi"
_QUANTUM_FORM = "a duration from 1ms to 3600s, such as 500ms or 30s"
_WEIGHT_FORM = f"a whole number from 1 to {limits.LARGEST_WEIGHT}"

NAMESPACE_LABELS: tuple[Word, ...] = (Word(names.INJECTION_LABEL, *_one_of(Injection)),)
NAMESPACE_ANNOTATIONS: tuple[Word, ...] = (
    Word(names.MULTI_GPU, _MODES, _read_mode),
    Word(names.ON_MULTI_GPU, *_one_of(OnMultiGpu)),
    Word(names.MAX_GPUS, f"a whole number from 1 to {limits.LARGEST_COUNT}", read_count),
    Word(names.MAX_MEMORY, _MEMORY_FORM, read_memory_bytes),
    Word(names.MAX_WEIGHT, _WEIGHT_FORM, read_weight),
    Word(names.MAX_QUANTUM, _QUANTUM_FORM, read_quantum_ms),
    Word(names.DEFAULT_MEMORY, _MEMORY_FORM, read_memory_bytes),
    Word(names.DEFAULT_WEIGHT, _WEIGHT_FORM, read_weight),
    Word(names.ALLOW, "a comma list of " + ", ".join(Exemption), read_exemptions),
)
POD_ANNOTATIONS: tuple[Word, ...] = (
    Word(names.MULTI_GPU, _MODES, _read_mode),
    Word(names.MEMORY, _MEMORY_FORM, read_memory_bytes),
    Word(names.QUANTUM, _QUANTUM_FORM, read_quantum_ms),
    Word(names.WEIGHT, _WEIGHT_FORM, read_weight),
    Word(names.ALLOCATION, *_one_of(AllocationKind)),
)
WRITTEN_BY_US = (names.INJECTED, names.REDUCED_FROM)
"""Pod annotations that the webhook writes; it replaces a user's own value."""
LABELS_WRITTEN_BY_US = (names.VGPU_LABEL,)
"""Pod labels that the webhook writes; it replaces a user's own value."""


def read_word(word: Word, text: str) -> object:
    """Return the value that `text` means for `word`; raise BadValue."""
    try:
        return word.read(text)
    except (ValueError, BadQuantity):
        raise BadValue(f"{word.key}: {text[:80]!r} is not allowed; it must be {word.allowed}") from None


def read_words(table: tuple[Word, ...], found: Mapping[str, str]) -> dict[str, object]:
    """Read every word of the table that `found` holds; skip other keys."""
    known = {word.key: word for word in table}
    return {key: read_word(known[key], text) for key, text in found.items() if key in known}


def unknown_keys(table: tuple[Word, ...], found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the `nvshare.com/` keys that neither the table nor the webhook knows, sorted."""
    known = {word.key for word in table} | set(WRITTEN_BY_US)
    return tuple(sorted(key for key in found if key.startswith(names.DOMAIN + "/") and key not in known))

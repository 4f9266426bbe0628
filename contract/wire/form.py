"""A frozen type as a line: a verb, and one key for each field; for named tuples and frozen dataclasses alike.

The rule it owns: a field that is None or empty is left out, a key that is missing means the field's default, and a key
that the form does not know is ignored.  A value that a key cannot have is an error that says which ones it can.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from contract.errors import BadLine, BadValue
from contract.wire.line import Line

T = TypeVar("T")
_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
_SHOWN = 40
"""Characters of a wrong value that an error repeats."""


class Kind(NamedTuple, Generic[T]):
    """How the values of a field are read and written."""

    allowed: str
    """Completes 'it must be …'."""
    read: Callable[[str], T]
    """Raises ValueError for a text that is not allowed."""
    write: Callable[[T], str] = str


def _read_name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _write_name(text: str) -> str:
    if not text:
        raise BadValue("a name is empty: give one, or leave it out")
    return text


def _read_count(text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _read_whole(text: str) -> int:
    return -_read_count(text[1:]) if text.startswith("-") else _read_count(text)


def _read_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _read_share(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError(text)
    return value


def _read_flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(_read_name(part) for part in text.split(",")) if text else ()


def _read_counts(text: str) -> tuple[int, ...]:
    return tuple(_read_count(part) for part in text.split(",")) if text else ()


def _read_tally(text: str) -> dict[str, int]:
    pairs = (part.partition(":") for part in text.split(",")) if text else ()
    return {_read_name(name): _read_count(count) for name, _, count in pairs}


def _write_tally(tally: Mapping[str, int]) -> str:
    return ",".join(f"{name}:{count}" for name, count in sorted(tally.items()))


TEXT = Kind("text", str)
NAME = Kind("a name", _read_name, _write_name)
COUNT = Kind("a whole number, 0 or more", _read_count)
WHOLE = Kind("a whole number", _read_whole)
NUMBER = Kind("a number", _read_number, "{:.6g}".format)
SHARE = Kind("a number from 0 to 1", _read_share, "{:.6g}".format)
FLAG = Kind("0 or 1", _read_flag, lambda value: "1" if value else "0")
NAMES = Kind("names with commas between them", _read_names, ",".join)
COUNTS = Kind("whole numbers with commas between them", _read_counts, lambda counts: ",".join(map(str, counts)))
TALLY: Kind[Mapping[str, int]] = Kind("name:count pairs with commas between them", _read_tally, _write_tally)


def count_between(least: int, most: int) -> Kind[int]:
    """Return the kind of whole numbers within these bounds."""

    def read(text: str) -> int:
        count = _read_count(text)
        if not least <= count <= most:
            raise ValueError(text)
        return count

    return Kind(f"a whole number from {least} to {most}", read)


class Form(Generic[T]):
    """The line that stands for a frozen type.

    `kinds` names each field; one that is a form itself puts its own keys into the same line.  `needs` are the keys that
    have no default.
    """

    def __init__(
        self, verb: str, made: type[T], kinds: Mapping[str, "Kind[Any] | Form[Any]"], *, needs: Collection[str] = ()
    ) -> None:
        self.verb = verb
        self._made = made
        self._kinds = kinds
        self._needs = needs

    def write(self, value: T) -> Line:
        """Return the line."""
        return Line(self.verb, self._write_words(value))

    def _write_words(self, value: T) -> dict[str, str]:
        words: dict[str, str] = {}
        for name, kind in self._kinds.items():
            item = getattr(value, name)
            if isinstance(kind, Form):
                words.update(kind._write_words(item))
            elif item is not None and (text := kind.write(item)):
                words[name] = text
        return words

    def read(self, line: Line) -> T:
        """Return what the line says."""
        values: dict[str, object] = {}
        for name, kind in self._kinds.items():
            if isinstance(kind, Form):
                values[name] = kind.read(line)
            elif name in line.words:
                values[name] = read_word(line, name, kind)
            elif name in self._needs:
                raise BadLine(f"a {line.verb!r} line names no {name}")
        return self._made(**values)


def read_word(line: Line, key: str, kind: Kind[T]) -> T:
    """Return the value of one key, which must be there."""
    text = line.words.get(key)
    if text is None:
        raise BadLine(f"a {line.verb!r} line names no {key}")
    try:
        return kind.read(text)
    except ValueError:
        raise BadLine(f"{key}={text[:_SHOWN]!r} in a {line.verb!r} line must be {kind.allowed}") from None

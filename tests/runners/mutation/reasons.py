"""The reasons why a surviving mutant may live, in `tests/runners/mutants_survivors.txt`.

A line is a mutant's name and a reason, as `path:function: operator: before -> after | reason`.  A name has no line
numbers, so it outlives lines that move.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).parent.parent / "mutants_survivors.txt"


class BadReason(ValueError):
    """A line of the file says no reason."""


def read(text: str) -> dict[str, str]:
    """Return the reason by the mutant's name."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, bar, reason = line.rpartition(" | ")
        if not bar or not name.strip() or not reason.strip():
            raise BadReason(f"line {number} of {FILE.name} says no reason. Write: name of the mutant | reason")
        found[name.strip()] = reason.strip()
    return found


def stale(reasons: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return the names with a reason that no mutant has any more."""
    return sorted(set(reasons) - set(names))

"""`make bench`: runs every `tests/bench/<room>/bench_*.py` and prints one table.

A bench module has a function `bench() -> Iterator[Row]`.  A figure stands beside its peer or its limit, measured in the
same run wherever that is possible.  A figure never fails a build.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


def percentile(figures: Sequence[float], percent: float) -> float:
    """Return the figure below which so many percent lie; the figures are sorted."""
    return figures[min(len(figures) - 1, int(len(figures) * percent / 100))]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: what was measured, beside what it is held against."""

    what: str
    value: float
    unit: str
    against: str = ""
    """The peer measured in this run, or the limit: said in words."""
    limit: float | None = None
    """The figure to reach, in the same unit; lower is better unless `more_is_better`."""
    more_is_better: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return "-"
        reached = self.value >= self.limit if self.more_is_better else self.value <= self.limit
        return "reached" if reached else "MISSED"

    def line(self) -> str:
        sign = ">=" if self.more_is_better else "<="
        limit = "" if self.limit is None else f"{sign} {self.limit:g}"
        figure = f"{self.what:<58} {self.value:>10.4g} {self.unit:<8} {limit:>10} {self.verdict:>8}"
        return f"{figure}  {self.against} {self.note}".rstrip()


def modules_named(folder: str, prefix: str, room: str | None) -> Iterator[str]:
    """Return the dotted names of `tests/<folder>/<room>/<prefix>_*.py`, sorted."""
    root = Path(__file__).parents[2]
    for path in sorted(root.glob(f"tests/{folder}/{room or '*'}/{prefix}_*.py")):
        yield ".".join(path.relative_to(root).with_suffix("").parts)


def main(arguments: list[str]) -> int:
    room = arguments[0] if arguments else None
    failed = 0
    for name in modules_named("bench", "bench", room):
        print(f"\n{name}", flush=True)
        try:
            for row in importlib.import_module(name).bench():
                print("  " + row.line(), flush=True)
        except Exception:  # noqa: BLE001  one broken bench must not hide the others' figures
            traceback.print_exc()
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

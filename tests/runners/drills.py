"""`make drills`: runs every `tests/drills/<room>/drill_*.py` at full counts and prints a table.

A drill module has a list `DRILLS: list[Drill]`.  A drill returns one line of figures, and raises when the behaviour is
not what it should be.  `NVSHARE_DRILL_SHARE` (0 to 1) is for trying one out; the default 1 is the full count.
"""

import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.runners.bench import modules_named

SHARE = float(os.environ.get("NVSHARE_DRILL_SHARE", "1"))


@dataclass(frozen=True)
class Drill:
    """One drill: its sentence, and the function that returns its figures."""

    what: str
    run: Callable[[], str]


def count(full: int) -> int:
    """Return the number of repetitions to do of the full count."""
    return max(1, int(full * SHARE))


def _run(drill: Drill) -> bool:
    began = time.monotonic()
    try:
        figures, passed = drill.run(), True
    except Exception as error:  # noqa: BLE001  the table goes on; the trace stands above the row
        traceback.print_exc()
        figures, passed = f"{type(error).__name__}: {error}".splitlines()[0][:160], False
    verdict = "passed" if passed else "FAILED"
    print(f"  {verdict}  {drill.what:<70} {time.monotonic() - began:7.1f} s  {figures}", flush=True)
    return passed


def main(arguments: list[str]) -> int:
    room = arguments[0] if arguments else None
    results: list[bool] = []
    for name in modules_named("drills", "drill", room):
        print(f"\n{name}", flush=True)
        results += [_run(drill) for drill in importlib.import_module(name).DRILLS]
    print(f"\n{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How long `nvsharectl` takes from its start to its end: `--help`, and `status` of a running daemon.

They go before whatever else the machine does.  Where that is not allowed, milliseconds say little on a busy machine, so
each is also held against Python that imports `argparse` and ends.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.wire.client import running_daemon
from tests.runners.bench import Row
from tests.runners.realtime import going_first

ROUNDS = 15
LIMIT_MS = 100.0
LIMIT_RATIO = 2.0
ARGPARSE = "python -c 'import argparse'"


def bench() -> Iterator[Row]:
    ours = ["-m", "schedulerd.nvsharectl"]
    with (
        tempfile.TemporaryDirectory() as folder,
        going_first(os.getpid(), with_children=True),
        running_daemon(Path(folder)) as daemon,
    ):
        status = [*ours, "--control", str(daemon.control), "status"]
        rounds = _rounds({ARGPARSE: ["-c", "import argparse"], "--help": [*ours, "--help"], "status": status})
    peer = f"{ARGPARSE}: {_median(rounds, ARGPARSE):.0f} ms"
    for name in ("--help", "status"):
        yield Row(what=f"nvsharectl {name}", value=_median(rounds, name), unit="ms", against=peer, limit=LIMIT_MS)
        ratio = statistics.median(times[name] / times[ARGPARSE] for times in rounds)
        yield Row(what=f"nvsharectl {name}, a round at a time", value=ratio, unit="x", against=peer, limit=LIMIT_RATIO)


def _median(rounds: list[dict[str, float]], name: str) -> float:
    return statistics.median(times[name] for times in rounds)


def _rounds(programs: dict[str, list[str]]) -> list[dict[str, float]]:
    """Run each program in each round, one after the other; return its milliseconds."""
    return [{name: _time_ms(words) for name, words in programs.items()} for _ in range(ROUNDS)]


def _time_ms(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000

"""How long `nvsharectl` takes from its start to its end: `--help`, and `status` of a running daemon."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.wire.client import running_daemon
from tests.runners.bench import Row

RUNS = 15
LIMIT_MS = 100.0


def bench() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, running_daemon(Path(folder)) as daemon:
        for words in (("--help",), ("--control", str(daemon.control), "status")):
            yield Row(what=f"nvsharectl {words[-1]}", value=_median_ms(words), unit="ms", limit=LIMIT_MS)


def _median_ms(words: tuple[str, ...]) -> float:
    command = [sys.executable, "-m", "schedulerd.nvsharectl", *words]
    return statistics.median(_time_ms(command) for _ in range(RUNS))


def _time_ms(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000

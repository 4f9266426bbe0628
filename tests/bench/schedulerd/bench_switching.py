"""What switching costs when working sets do not fit together: the software GPU's own record of paging, under the hook.

A small card can stand for a large one: the same ratio of working set, card and paging rate gives the same share.
"""

import itertools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.gpu_record import Record
from tests.fakes.wire.client import running_daemon
from tests.runners.bench import Row

ROOT = Path(__file__).parents[3]
BURN, HOOK = ROOT / "build/simgpu/burn", ROOT / "build/hook/libnvshare.so"
PAGE_RATE = 8.0e9
SECONDS = 60
WORKING_SET_MB = 700


def bench() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        yield from _oversubscribed(Path(name))


def environment(folder: Path, label: str) -> dict[str, str]:
    simgpu = {
        "SIMGPU_FILE": str(folder / "gpus"),
        "SIMGPU_DEVICES": "1xT4-1GB",
        "SIMGPU_OVERHEAD": "30MB",
        "SIMGPU_PAGE_RATE": "8GB",
        "SIMGPU_PASS": "100ms",
        "SIMGPU_LABEL": label,
    }
    return {**os.environ, "LD_LIBRARY_PATH": str(ROOT / "build/simgpu"), **simgpu}


def _oversubscribed(folder: Path) -> Iterator[Row]:
    flags = ["--observer=spawn", "--metrics-port=0", "--paging-rate=8Gi", "--context-size=30Mi", "--card-reserve=16Mi"]
    saved = dict(os.environ)
    os.environ.update(environment(folder, "daemon"))
    try:
        with running_daemon(folder, *flags) as daemon:
            time.sleep(3)  # the observer tells the card's size
            burns = [_burn(folder, label) for label in ("alice", "bob")]
            for burn in burns:
                burn.wait(SECONDS + 60)
            daemon.end(signal.SIGTERM)
    finally:
        os.environ.clear()
        os.environ.update(saved)
    intervals = Record(folder / "gpus").intervals(0)
    began, ended = min(one.start for one in intervals), max(one.end for one in intervals)
    paged = sum(one.paged_bytes for one in intervals)
    switches = sum(a.owner.label != b.owner.label for a, b in itertools.pairwise(intervals))
    share = 100 * (paged / PAGE_RATE) / (ended - began)
    note = f"{switches} switches, {paged / 1e9:.1f} GB paged in {ended - began:.0f} s"
    yield Row(what="switching, two working sets of 70 % of the card", value=share, unit="%", limit=3.0, note=note)


def _burn(folder: Path, label: str) -> subprocess.Popen[bytes]:
    variables = {**environment(folder, label), "LD_PRELOAD": str(HOOK), "NVSHARE_SOCKETS": str(folder)}
    command = [str(BURN), "--kernel-ms", "5", "--seconds", str(SECONDS), "--managed-mb", str(WORKING_SET_MB), "--quiet"]
    return subprocess.Popen(command, env=variables)

"""`make gpu-check`: the bench tables that do not depend on the software GPU, and the frameworks' table, on a real card.

Without a card it prints "not run" and why, and this is no failure.  The software GPU is never taken for a card.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.runners.bench import Row
from tests.simgpu.launch_costs import launch_costs

NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


def why_not() -> str | None:
    """Return the reason why there is no real card to measure, or None."""
    if not any(Path(node).exists() for node in NODES):
        return "this machine has no NVIDIA device node"
    if not Path("/proc/driver/nvidia/version").exists():
        return "NVIDIA's kernel driver is not loaded"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"the driver's library cannot be loaded: {error}"
    if "simgpu" in Path("/proc/self/maps").read_text():
        return "libcuda.so.1 is the software GPU's here (LD_LIBRARY_PATH)"
    answer = driver.cuInit(0)
    return None if answer == 0 else f"cuInit says {answer}"


def rows() -> list[Row]:
    """Measure what a launch costs on the card's own driver, beside the software GPU's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SIMGPU_")}
    with tempfile.TemporaryDirectory() as folder:
        # 500 at a time: a real queue holds about 1,000 before the call blocks
        runs = [launch_costs(Path(folder), environment, "100000", "500") for _ in range(5)]
    one, four = (statistics.median(run[i] for run in runs) for i in (0, 1))
    note = "the software GPU's is 7 ns: what the hook adds must be judged against this"
    return [
        Row(what="launch of an empty kernel, 1 thread", value=one, unit="ns", note=note),
        Row(what="launch of an empty kernel, 4 threads", value=four, unit="ns"),
    ]


def main() -> int:
    reason = why_not()
    if reason:
        sys.stdout.write(f"gpu-check: not run: {reason}\n")
        return 0
    for row in rows():
        sys.stdout.write(f"  {row.line()}\n")
    return subprocess.run([sys.executable, "-m", "testbed.frameworks", "--card"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

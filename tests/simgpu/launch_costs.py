"""What a launch costs, measured by a C program with the libcuda.so.1 of its environment."""

from __future__ import annotations

import subprocess
from pathlib import Path


def launch_costs(folder: Path, environment: dict[str, str], *arguments: str) -> tuple[float, float]:
    """Return ns for a launch on 1 and on 4 threads, with the libcuda.so.1 of the environment."""
    program = folder / "launch_cost"
    source = Path(__file__).with_name("programs") / "launch_cost.c"
    subprocess.run(["gcc", "-O2", "-pthread", source, "-o", program, "-ldl"], check=True)
    out = subprocess.run([program, *arguments], env=environment, check=True, capture_output=True, text=True).stdout
    one, four = (float(row) for row in out.split())
    return one, four

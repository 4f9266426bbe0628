"""The software GPU's NVML, for processes that a test starts."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIMGPU = ROOT / "build" / "simgpu"


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(SIMGPU),
        "SIMGPU_FILE": str(folder / "gpus"),
        "SIMGPU_DEVICES": "2xA100-40GB,1xT4-16GB",
    }

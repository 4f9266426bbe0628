"""The GPUs under a step: software ones with the stand-ins, or the machine's real cards with NVIDIA's own libraries.

The rule: what differs between the two stands here and nowhere else.  The real cards' side could not be tried without a
card; `make gpu-check` runs it where one is.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from testbed.frameworks.errors import StepError
from testbed.frameworks.table import Step
from testbed.frameworks.wheels import Wheels
from testbed.gpu_record import Record, busy_seconds

BUILD = Path(__file__).parents[2] / "build"
SIMGPU = BUILD / "simgpu"
OVERLAP = "4"
KERNEL_TIME = "20us"
DATA_BYTES = "16MB"
"""The host moves the bytes of a copy while it is submitted: that much of each allocation is enough to compare."""
NO_END = "3600"


class Hardware(Protocol):
    """What a run needs to know of its GPUs."""

    @property
    def wheels(self) -> Wheels:
        """Return where the frameworks lie."""

    def environ(self, folder: Path, step: Step) -> dict[str, str]:
        """Return the environment that puts a process on this run's GPUs."""

    def uuids(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """List these GPUs."""

    def competitor(self, devices: int) -> list[str]:
        """Return the command of a program that keeps so many GPUs wanted."""

    def busy(self, folder: Path, label: str) -> float | None:
        """Return for how long the processes with this label executed; None where nothing recorded it."""


@dataclass(frozen=True)
class SoftwareGpus:
    """GPUs made of software: a file of their own for each run."""

    wheels: Wheels
    standins: Path

    def environ(self, folder: Path, step: Step) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": f"{SIMGPU}:{self.standins}",
            "SIMGPU_FILE": str(folder / "gpus"),
            "SIMGPU_DEVICES": step.devices,
            "SIMGPU_OVERLAP": OVERLAP,
            "SIMGPU_KERNEL_TIME": KERNEL_TIME,
            "SIMGPU_DATA_BYTES": DATA_BYTES,
        }

    def uuids(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        listed = _listed([str(SIMGPU / "simgpu"), "devices"], environ, "run `make native`")
        return tuple(line.split()[1] for line in listed)

    def competitor(self, devices: int) -> list[str]:
        named = ",".join(map(str, range(devices)))
        return [str(SIMGPU / "burn"), "--devices", named, "--kernel-ms", "5", "--seconds", NO_END, "--quiet"]

    def busy(self, folder: Path, label: str) -> float | None:
        record = Record(folder / "gpus")
        return sum(busy_seconds(record.intervals(card.index)).get(label, 0.0) for card in record.cards)


@dataclass(frozen=True)
class Cards:
    """The machine's own cards, with the wheels of NVIDIA's libraries beside the frameworks'."""

    wheels: Wheels

    def environ(self, folder: Path, step: Step) -> dict[str, str]:
        """Show as many cards as the step's software GPUs; `folder` holds nothing of theirs."""
        everything = self.uuids(os.environ)
        wanted = int(step.devices.partition("x")[0])
        if len(everything) < wanted:
            raise StepError(f"{step.name} needs {wanted} cards, and here are {len(everything)}", "use a larger machine")
        return {"CUDA_VISIBLE_DEVICES": ",".join(everything[:wanted]), "NVSHARE_STEP": folder.name}

    def uuids(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        shown = environ.get("CUDA_VISIBLE_DEVICES")
        if shown:
            return tuple(shown.split(","))
        command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        return tuple(_listed(command, os.environ, "see that nvidia-smi works"))

    def competitor(self, devices: int) -> list[str]:
        """Use a job that trains for ever on the first card: `burn` speaks only to the software GPU."""
        del devices
        return [str(self.wheels.python), "-m", "testbed.frameworks.steps.torch_pod", "--seconds", NO_END]

    def busy(self, folder: Path, label: str) -> float | None:
        del folder, label
        return None


def _listed(command: list[str], environ: Mapping[str, str], fix: str) -> list[str]:
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)
    except OSError as error:
        raise StepError(f"{command[0]} cannot be run: {error.strerror}", fix) from error
    found = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if not found:
        raise StepError(f"{command[0]} names no GPU: {done.stderr.strip()}", fix)
    return found

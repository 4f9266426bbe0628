"""Programs under the hook: compiled when first needed, and run on the software GPU in an environment of their own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parents[1] / "programs"
BUILD = ROOT / "build" / "hook"
DRIVER = ROOT / "build" / "simgpu"
HOOK = BUILD / "libnvshare.so"
PATIENCE = 60.0
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]


def compiled(name: str, *flags: str) -> Path:
    """Compile the named program when its source is newer, linked with the driver, and return its path."""
    source, header = PROGRAMS / f"{name}.c", PROGRAMS / "program.h"
    folder = BUILD / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "".join((name, *flags)).replace("/", "_")
    if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, header.stat().st_mtime):
        fresh = folder / f".{target.name}.{os.getpid()}"
        command = ["gcc", "-std=gnu11", "-O2", "-g", *WARNINGS, *flags, "-o", fresh, source]
        subprocess.run(
            [*map(str, command), *([] if "-static" in flags else [f"-L{DRIVER}", "-lcuda"]), "-pthread", "-ldl", "-lm"],
            check=True,
        )
        fresh.rename(target)
    return target


def hook_built(variant: str, **variables: str) -> Path:
    """Build the hook with other flags, in a folder of its own."""
    out = BUILD / variant
    words = [f"{name}={value}" for name, value in variables.items()]
    subprocess.run(["make", "-s", "-C", str(ROOT / "hook"), f"OUT={out}", *words], check=True)
    return out / "libnvshare.so"


@dataclass
class Machine:
    """A software GPU's file and a sockets folder, for one test."""

    folder: Path
    devices: str = "1xT4-16GB"
    hook: Path = HOOK
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def sockets(self) -> Path:
        return self.folder

    @property
    def gpus(self) -> Path:
        return self.folder / "gpus"

    def environment(self, *, hooked: bool = True, **more: str) -> dict[str, str]:
        bare = {
            k: v for k, v in os.environ.items() if not k.startswith(("NVSHARE_", "SIMGPU_", "CUDA_", "NVIDIA_", "LD_"))
        }
        own = {
            "LD_LIBRARY_PATH": str(DRIVER),
            "SIMGPU_FILE": str(self.gpus),
            "SIMGPU_DEVICES": self.devices,
            "NVSHARE_SOCKETS": str(self.sockets),
        }
        preload = {"LD_PRELOAD": str(self.hook)} if hooked else {}
        return bare | own | preload | self.settings | more

    def start(self, *command: str | Path, hooked: bool = True, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*map(str, command)],
            env=self.environment(hooked=hooked, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str | Path, hooked: bool = True, **more: str) -> "Ended":
        process = self.start(*command, hooked=hooked, **more)
        try:
            out, said = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, said = process.communicate()
            raise AssertionError(f"{command[0]} did not end: {out[-500:]} {said[-2000:]}") from None
        return Ended(process.returncode, out, said)

    def uuids(self) -> list[str]:
        """Return the devices' UUIDs in order."""
        listed = subprocess.run(
            [DRIVER / "simgpu", "devices"],
            env=self.environment(hooked=False),
            capture_output=True,
            text=True,
            check=True,
        )
        return [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("GPU-")]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    said: str

    def well(self) -> str:
        """Return what the program printed; fail with its errors when it did not succeed."""
        assert self.code == 0, f"exit {self.code}: {self.out[-500:]} {self.said[-3000:]}"
        return self.out


def wait_until(holds: Callable[[], bool], *, within: float = PATIENCE, what: str = "it") -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"waited {within} s for {what}"
        time.sleep(0.002)


def zig_cc(*words: str | Path) -> Sequence[str]:
    """Return the C compiler that targets old C libraries."""
    return [sys.executable, "-m", "ziglang", "cc", *map(str, words)]

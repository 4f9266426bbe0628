"""One build for every image: it loads from glibc 2.17 on, and does no harm in musl, static and CUDA-less programs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hook.support.machine import PROGRAMS, ROOT, Machine, compiled, zig_cc

pytestmark = pytest.mark.slow
OLDEST = (2, 17)
SYSTEM = {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
"""Names that glibc has had for ever, and that musl takes for its own."""


@pytest.fixture(scope="session")
def portable() -> Path:
    subprocess.run(["make", "-s", "-C", str(ROOT / "hook"), "portable", f"PYTHON={sys.executable}"], check=True)
    return ROOT / "build" / "hook" / "portable" / "libnvshare.so"


@pytest.fixture(scope="session")
def musl() -> Path:
    """Return musl's loader, from Debian's own package in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nvshare-guard" / "musl"
    loader = cache / "lib" / "ld-musl-x86_64.so.1"
    if not loader.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            pytest.skip("musl's loader comes from Debian's package, and this is no Debian")
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "-q", "download", "musl"], cwd=cache, check=True, capture_output=True)
        subprocess.run(["dpkg", "-x", *cache.glob("musl_*.deb"), cache], check=True)
    return loader


def _symbols(library: Path) -> str:
    return subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout


def test_it_needs_nothing_newer_than_glibc_2_17(portable: Path) -> None:
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", _symbols(portable))}

    assert max(versions)[:2] <= OLDEST


def test_it_needs_no_library_but_the_system_s(portable: Path) -> None:
    shown = subprocess.run(["readelf", "-d", portable], capture_output=True, text=True, check=True).stdout

    assert set(re.findall(r"NEEDED.*\[(.+)\]", shown)) <= SYSTEM


def test_it_exports_what_the_usual_build_exports(portable: Path) -> None:
    def exported(library: Path) -> set[str]:
        shown = subprocess.run(
            ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
        ).stdout
        return {line.split()[-1].split("@")[0] for line in shown.splitlines()}

    assert exported(portable) == exported(ROOT / "build" / "hook" / "libnvshare.so")


@pytest.mark.usefixtures("daemon")
def test_it_works(machine: Machine, portable: Path) -> None:
    machine.hook = portable

    assert machine.run(compiled("reloading")).well() == "done\n"
    assert "turns=" in machine.run(compiled("pulse"), "1", "5", "step_1us", NVSHARE_LOG="summary").said


def test_a_musl_program_does_not_notice(machine: Machine, portable: Path, musl: Path) -> None:
    program = machine.folder / "musl-program"
    words = ["-target", "x86_64-linux-musl", "-dynamic", "-O2", "-fno-sanitize=all", f"-Wl,--dynamic-linker={musl}"]
    subprocess.run(zig_cc(*words, "-o", program, PROGRAMS / "no_cuda.c"), check=True)

    for hook in (portable, machine.hook):
        ended = machine.run(program, LD_PRELOAD=str(hook))
        assert ended.well() == "0 1 0\n"
        assert ended.said == ""


def test_a_static_program_does_not_notice(machine: Machine, portable: Path) -> None:
    machine.hook = portable

    assert machine.run(compiled("no_cuda", "-static", "-w")).well().startswith("0 ")

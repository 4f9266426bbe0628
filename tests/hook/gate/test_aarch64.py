"""The gate on aarch64: built by the same compiler as what we ship, and run by qemu-user where Debian has it.

An emulator orders memory at least as strictly as the processor that it runs on, so it cannot show a reordering that
only an aarch64 processor does.  What it shows is that the code runs and keeps its rule.  The order itself is looked up
in the machine code: the proof in gate.h needs LDAR, not the weaker LDAPR, behind a store with release.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hook.support.machine import BUILD, PROGRAMS, ROOT, Ended, zig_cc

pytestmark = pytest.mark.slow
HOOK = ROOT / "hook"
SOURCES = [PROGRAMS / "litmus.c", HOOK / "gate" / "gate.c", HOOK / "gate" / "thread_slots.c"]
INCLUDES = [f"-I{HOOK}", f"-I{BUILD / 'made'}"]
ROUNDS = "2000"


@pytest.fixture(scope="session")
def qemu() -> Path:
    """Return qemu for aarch64 programs, from the system or from Debian's own package in the cache."""
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if found:
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nvshare-guard" / "qemu"
    program = cache / "usr" / "bin" / "qemu-aarch64-static"
    if not program.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            pytest.skip("qemu-aarch64 comes from Debian's package, and this is no Debian: aarch64 was NOT run")
        cache.mkdir(parents=True, exist_ok=True)
        ran = subprocess.run(
            ["apt-get", "-q", "download", "qemu-user-static"], cwd=cache, capture_output=True, text=True
        )
        if ran.returncode:
            pytest.skip(f"qemu-user-static cannot be had, and aarch64 was NOT run: {ran.stderr[-200:]}")
        (package,) = cache.glob("qemu-user-static_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, cache], check=True)
        package.unlink()
    return program


def test_the_whole_library_builds_for_aarch64_and_exports_the_same() -> None:
    out = BUILD / "aarch64"
    words = [f"OUT={out}", "ARCH=aarch64", f"PYTHON={sys.executable}"]
    subprocess.run(["make", "-s", "-C", str(HOOK), "portable", *words], check=True)

    def exported(library: Path) -> set[str]:
        shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
        return {line.split()[-1].split("@")[0] for line in shown.stdout.splitlines()}

    built = out / "portable" / "libnvshare.so"
    header = subprocess.run(["readelf", "-h", built], capture_output=True, text=True, check=True).stdout
    assert "AArch64" in header
    assert exported(built) == exported(BUILD / "libnvshare.so")


def litmus(folder: Path, *words: str) -> Path:
    program = folder / "litmus"
    target = ["-target", "aarch64-linux-musl", "-static", "-std=gnu11", "-O2", "-fno-sanitize=all", "-pthread"]
    subprocess.run(zig_cc(*target, *words, *INCLUDES, "-o", program, *SOURCES), check=True)
    return program


def run(qemu: Path, program: Path) -> int:
    ran = subprocess.run([qemu, program, ROUNDS], capture_output=True, text=True, timeout=100)
    return int(Ended(ran.returncode, ran.stdout, ran.stderr).well())


def test_nobody_is_in_a_call_when_the_gate_was_closed_and_the_slots_are_clear(qemu: Path, tmp_path: Path) -> None:
    assert run(qemu, litmus(tmp_path)) == 0


def test_a_weakened_gate_is_found_out(qemu: Path, tmp_path: Path) -> None:
    program = litmus(tmp_path, "-DNVSHARE_WEAKENED_GATE")

    assert any(run(qemu, program) for _ in range(5))


def test_the_gate_is_read_by_loads_that_no_earlier_store_with_release_passes(tmp_path: Path) -> None:
    listing = tmp_path / "litmus.s"
    words = ["-target", "aarch64-linux-gnu.2.17", "-std=gnu11", "-O2", "-fPIC", "-S", *INCLUDES]
    subprocess.run(zig_cc(*words, "-o", listing, SOURCES[0]), check=True)
    shown = listing.read_text()

    assert re.search(r"\bldar\b", shown)
    assert re.search(r"\b(stlxr|swpal|__aarch64_swp4_acq_rel)\b", shown), "the exchange of the slot"
    assert "ldapr" not in shown

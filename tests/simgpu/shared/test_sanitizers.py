"""The libraries built with gcc's sanitizers and used by several threads: there is not one report."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes.gpu_machine import BUILD, ROOT, Machine


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_the_families_are_clean_under(sanitizer: str, tmp_path: Path) -> None:
    built = ROOT / "build" / f"simgpu-{sanitizer.split(',')[0]}"
    flags = [f"SANITIZE={sanitizer}", "-C", str(ROOT / "simgpu")]
    subprocess.run(["make", "-s", "-j2", *flags], check=True, capture_output=True)
    program = tmp_path / "exercise"
    command = [
        "gcc",
        f"-fsanitize={sanitizer}",
        "-g",
        "-pthread",
        str(Path(__file__).parents[1] / "programs" / "exercise.c"),
    ]
    subprocess.run([*command, "-o", program, built / "libcuda.so.1"], check=True)
    machine = Machine(tmp_path, "2xT4-16GB")
    environment = {
        **machine.environment(touched="50%", host_pages="on"),
        "LD_LIBRARY_PATH": str(built),
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        # handles are kept for ever on purpose (see handles.c)
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "halt_on_error=1",
    }

    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stderr[-6000:]
    assert "Sanitizer" not in done.stderr
    assert done.stdout == "done\n"


def test_the_libraries_need_nothing_but_the_c_library() -> None:
    allowed = ("libc.so", "ld-linux", "libm.so")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        out = subprocess.run(["readelf", "-d", BUILD / name], capture_output=True, text=True, check=True).stdout
        needed = [row.split("[")[1].rstrip("]") for row in out.splitlines() if "(NEEDED)" in row]
        assert all(library.startswith(allowed) for library in needed), needed
    assert os.access(BUILD / "burn", os.X_OK)

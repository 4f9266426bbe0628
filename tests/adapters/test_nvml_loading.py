"""Which library is loaded, by real loads: the software GPU's library below roots of temp folders.

Each load is a process of its own, since a process keeps what it has loaded.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build" / "simgpu" / "libnvidia-ml.so.1"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="build/simgpu is not built: make native")

_OPEN = """
import sys
from pathlib import Path
from adapters import driver_files, nvml
driver_files.ROOTS = tuple(map(Path, sys.argv[2:]))
library = nvml.Library(Path(sys.argv[1]) if sys.argv[1] else None)
for _ in range(2):
    try:
        print(library.open())
    except nvml.NoAnswer:
        pass
    print(library.told + " (outdated)" * library.is_outdated)
    library.close()
    print(sys.stdin.readline(), end="")
"""


def opening(root: str, *roots: Path, folder: Path, **more: str) -> list[str]:
    """Open the library twice in a process; return how many GPUs it has and what it says, or only that."""
    environment = {"PATH": "/usr/bin:/bin", "SIMGPU_FILE": str(folder / "gpus"), "SIMGPU_DEVICES": "2xL4-24GB", **more}
    command = [sys.executable, "-c", _OPEN, root, *map(str, roots)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def install(root: Path, name: str = "libnvidia-ml.so.1") -> Path:
    """Put the library below a root, where Red Hat has it."""
    folder = root / "usr/lib64"
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(LIBRARY, folder / name))


def build(source: str, file: Path) -> None:
    """Build a library with the name that the loader knows NVIDIA's by."""
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-x", "c", "-o", str(file), "-"]
    subprocess.run(command, input=source, text=True, check=True)


def test_a_library_below_a_root_that_was_named_is_loaded_by_its_path(tmp_path: Path) -> None:
    file = install(tmp_path)

    said = ["2", f"NVML is {file} (below the driver's root {tmp_path}), driver 580.65.06."]
    assert opening(str(tmp_path), folder=tmp_path) == said * 2


def test_the_usual_roots_are_searched_in_their_order(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    install(second)
    assert f"below the driver's root {second}" in opening("", first, second, folder=tmp_path)[1]
    install(first)
    assert f"below the driver's root {first}" in opening("", first, second, folder=tmp_path)[1]


def test_what_the_loader_finds_goes_before_every_root(tmp_path: Path) -> None:
    install(tmp_path)
    said = opening("", tmp_path, folder=tmp_path, LD_LIBRARY_PATH=str(LIBRARY.parent))

    assert said[1] == f"NVML is {LIBRARY} (found by the loader), driver 580.65.06."


def test_a_root_that_was_named_goes_before_what_the_loader_finds(tmp_path: Path) -> None:
    file = install(tmp_path)

    assert str(file) in opening(str(tmp_path), folder=tmp_path, LD_LIBRARY_PATH=str(LIBRARY.parent))[1]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        pytest.param(
            "int nvmlInitWithFlags(unsigned f) { return f + 18; }", "version mismatch", id="of another version"
        ),
        pytest.param("int nvmlInitWithFlags(unsigned f) { return f + 9; }", "Driver Not Loaded", id="without a driver"),
        pytest.param("int other;", "Function Not Found", id="that is none of NVIDIA's"),
        pytest.param("", "file too short", id="that is empty, as the toolkit leaves one in images"),
    ],
)
def test_a_library_that_does_not_answer_is_passed_over(source: str, error: str, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    file = install(bad)
    if source:
        build(source, file)
    else:
        file.write_bytes(b"")
    said = opening("", bad, folder=tmp_path)[0]
    assert error in said
    assert said.endswith(" (outdated)") is ("mismatch" in error)
    install(good)

    assert opening("", bad, good, folder=tmp_path)[:2] == [
        *("2", f"NVML is {good}/usr/lib64/libnvidia-ml.so.1 (below the driver's root {good}), driver 580.65.06.")
    ]


def test_after_an_upgrade_of_the_driver_its_new_library_is_found(tmp_path: Path) -> None:
    old = install(tmp_path, "libnvidia-ml.so.580.1")
    build(
        "static int calls; int nvmlInitWithFlags(unsigned f) { return calls++ ? 18 : f; } "
        "int nvmlDeviceGetCount_v2(int *n) { return *n = 0; } int nvmlShutdown(void) { return 0; }",
        old,
    )
    read, write = os.pipe()
    command = [sys.executable, "-c", _OPEN, "", str(tmp_path)]
    environment = {"PATH": "/usr/bin:/bin", "SIMGPU_FILE": str(tmp_path / "gpus"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=read, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        assert str(old) in process.stdout.readline()
        old.unlink()
        new = install(tmp_path, "libnvidia-ml.so.590.2")
        os.write(write, b"upgraded\n\n")
        assert process.stdout.readline() == "upgraded\n"
        assert process.stdout.readline() == "1\n"
        assert str(new) in process.stdout.readline()
    os.close(read)
    os.close(write)

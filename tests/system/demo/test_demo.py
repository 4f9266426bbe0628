"""The demo as a user sees it: it tells its story, explains each bad start, and leaves nothing running."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
SECONDS = 120


def run(
    *arguments: str, environ: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "testbed.demo", *arguments],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return a temporary folder whose short name leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as folder:
        yield Path(folder)


def left_running(folder: Path) -> list[str]:
    """Return the command lines that still name this run's temporary folder."""
    lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if str(folder) in line]


@pytest.mark.slow
def test_the_story_is_told_from_refusal_to_turns(short_path: Path) -> None:
    told = run("--seconds", "3", environ={"TMPDIR": str(short_path)})

    assert told.returncode == 0, told.stderr
    for words in (
        "software GPU",
        "1 refused",
        "nvshare.com/multi-gpu: gang",
        "2 fixed",
        "+",
        "3 turns",
        "overlap",
        "next:",
    ):
        assert words in told.stdout.replace("Software", "software")
    assert "on one GPU: 0.000 s" in told.stdout
    assert left_running(short_path) == []


def test_a_temporary_folder_too_long_for_sockets_is_said_with_its_remedy(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    told = run(environ={"TMPDIR": str(deep)})

    assert told.returncode == 1
    assert "too long" in told.stderr
    assert "TMPDIR" in told.stderr


@pytest.mark.slow
def test_a_port_in_use_is_said_with_its_remedy_and_nothing_stays(short_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = run("--port", str(taken.getsockname()[1]), environ={"TMPDIR": str(short_path)})

    assert told.returncode == 1
    cause, remedy = told.stderr.splitlines()
    assert "in use" in cause
    assert remedy.startswith("  fix: ")
    assert "--port" in remedy
    assert left_running(short_path) == []


@pytest.mark.slow
def test_an_unknown_gpu_model_is_said_with_those_that_there_are(short_path: Path) -> None:
    told = run("--devices", "1xZ9000-16GB", environ={"TMPDIR": str(short_path)})

    assert told.returncode == 1
    assert "Z9000" in told.stderr
    assert "fix:" in told.stderr
    assert left_running(short_path) == []


@pytest.mark.parametrize("seconds", ["0", "-3", "601", "long"])
def test_a_length_that_cannot_be_is_refused(short_path: Path, seconds: str) -> None:
    told = run(f"--seconds={seconds}", environ={"TMPDIR": str(short_path)})

    assert told.returncode == 2
    assert "--seconds" in told.stderr
    assert seconds in told.stderr


@pytest.mark.parametrize(
    ("hidden", "says"),
    [
        pytest.param("gcc", "there is no C compiler", id="no compiler"),
        pytest.param("python3", "there is no python3", id="no Python"),
    ],
)
def test_the_set_up_says_what_is_missing_and_what_brings_it(tmp_path: Path, hidden: str, says: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "python3", "gcc", "make", "pwd", "ld", "as", "cc1"):
        found = None if tool == hidden else _which(tool)
        if found:
            (tools / tool).symlink_to(found)
    venv = tmp_path / "venv"

    told = subprocess.run(
        ["/bin/sh", "tests/setup.sh", venv],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.returncode == 1
    assert says in told.stderr
    assert "fix: apt-get install" in told.stderr
    assert not venv.exists()


def _which(tool: str) -> Path | None:
    if tool == "python3":  # a version manager's stand-in on the PATH would look for more than we link
        return Path(sys.executable).resolve()
    found = shutil.which(tool)
    return Path(found) if found else None


def test_a_read_only_clone_is_said_with_its_remedy(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "tests").mkdir(parents=True)
    (clone / "tests" / "setup.sh").write_text((ROOT / "tests" / "setup.sh").read_text())
    clone.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(clone, os.W_OK):
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "tests/setup.sh", ".venv"]
        tmp_path.chmod(0o755)
        clone.chmod(0o555)
    else:
        command = ["sh", "tests/setup.sh", ".venv"]
    told = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)

    assert told.returncode == 1
    assert "read-only" in told.stderr

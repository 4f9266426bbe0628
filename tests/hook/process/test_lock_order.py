"""The order of the hook's locks: a debug build ends a process that breaks it, and the hook never breaks it."""

import itertools
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.hook.support.machine import PROGRAMS, ROOT, WARNINGS, Machine, compiled, hook_built

HOOK = ROOT / "hook"
SOURCES = [PROGRAMS / "lock_order.c", HOOK / "process/lock_order.c", HOOK / "process/log.c"]
LOCKS = re.findall(r"^    LOCK\((\w+),", (HOOK / "process/lock_order.h").read_text(), re.MULTILINE)


def _built(folder: Path, *flags: str) -> Path:
    command = ["gcc", "-std=gnu11", "-O1", "-g", *WARNINGS, *flags, f"-I{HOOK}", "-o", folder / "lock_order", *SOURCES]
    subprocess.run([*map(str, command), "-pthread"], check=True)
    return folder / "lock_order"


@pytest.fixture(scope="module")
def debug(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory.mktemp("debug"), "-DNVSHARE_DEBUG")


def _run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=20)


def test_locks_may_be_taken_downwards_in_the_table(debug: Path) -> None:
    for first, second in itertools.combinations(LOCKS, 2):
        assert _run(debug, first, second).stdout == "taken\n"


def test_a_lock_taken_against_the_order_ends_the_process_and_both_are_named(debug: Path) -> None:
    for earlier, later in itertools.combinations(LOCKS, 2):
        ended = _run(debug, later, earlier)

        assert ended.returncode == -signal.SIGABRT
        assert f"{earlier} is taken while {later} is held" in ended.stderr


def test_a_lock_taken_twice_ends_the_process_and_does_not_hang(debug: Path) -> None:
    ended = _run(debug, "FLIGHT", "FLIGHT")

    assert ended.returncode == -signal.SIGABRT
    assert "FLIGHT is taken while FLIGHT is held" in ended.stderr


def test_waiting_with_another_lock_held_ends_the_process(debug: Path) -> None:
    ended = _run(debug, "TURNS", "MEMORY", "wait")

    assert ended.returncode == -signal.SIGABRT
    assert "waiting with MEMORY while TURNS is held" in ended.stderr


def test_a_release_build_checks_nothing(tmp_path: Path) -> None:
    program = _built(tmp_path)

    assert _run(program, "MEMORY", "TURNS").stdout == "taken\n"
    assert "lock_check" not in subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checked(machine: Machine) -> Machine:
    """Return a machine whose hook checks the order."""
    machine.hook = hook_built("debug", EXTRA="-DNVSHARE_DEBUG")
    return machine


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    "program",
    [
        ("threading", "8"),
        ("churn_some", "3000"),
        ("capturing", "0.7"),
        ("families", "16"),
        ("forking", "first"),
        ("resetting", "reset", "8", "100"),
    ],
    ids=lambda program: program[0],
)
def test_the_hook_keeps_the_order(checked: Machine, program: tuple[str, ...]) -> None:
    neighbour = checked.start(compiled("hammer"), "2", "step_1us", "stream")

    checked.run(compiled(program[0]), *program[1:]).well()

    _, said = neighbour.communicate(timeout=30)
    assert neighbour.returncode == 0, said[-3000:]

"""A program with AddressSanitizer: it does not start under the hook unless it is told so, and then it works."""

import subprocess

import pytest

from tests.hook.support.machine import Machine, compiled

ALLOWED = "verify_asan_link_order=0:detect_leaks=0"
"""README.md names the first; leaks are not what is tried here."""


def test_a_program_with_asan_that_is_not_told_does_not_start_and_names_the_reason(machine: Machine) -> None:
    ended = machine.run(compiled("no_cuda", "-fsanitize=address"))

    assert ended.code == 1
    assert "ASan runtime does not come first" in ended.said


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("program", [("no_cuda",), ("pulse", "1", "20", "step_1us")])
def test_a_program_with_asan_that_is_told_works(machine: Machine, program: tuple[str, ...]) -> None:
    ended = machine.run(compiled(program[0], "-fsanitize=address"), *program[1:], ASAN_OPTIONS=ALLOWED)

    ended.well()
    assert "ERROR" not in ended.said


def test_a_weak_reference_to_a_wrapped_function_finds_ours_which_says_that_there_is_none(machine: Machine) -> None:
    source = """
    #include <stdio.h>
    int cuInit(unsigned) __attribute__((weak));
    int cuGraphLaunch(void *, void *) __attribute__((weak));
    int main(void) {
        printf("%d %d\\n", cuInit != NULL, cuGraphLaunch ? cuGraphLaunch(NULL, NULL) : 0);
        return 0;
    }
    """
    program = machine.folder / "weak"
    subprocess.run(["gcc", "-fPIC", "-x", "c", "-o", program, "-"], input=source, text=True, check=True)

    assert machine.run(program, LD_LIBRARY_PATH="").well().split() == ["0", "500"]

"""The tool behind `make mutants`: its operators, its choice, its verdicts, and a few mutants of a small folder."""

import ast
import os
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runners.mutants import MAX_PERCENT, Result, main
from tests.runners.mutation import reasons, swap
from tests.runners.mutation.forks import End, Job, run_all
from tests.runners.mutation.mutant import choose, mutants_in, mutants_of
from tests.runners.mutation.operators import OPERATORS

ROOT = Path(__file__).parent.parent.parent


def changes_of(source: str) -> dict[str, list[str]]:
    """Return the replacements by operator."""
    found: dict[str, list[str]] = {}
    for mutant in mutants_of("a.py", textwrap.dedent(source)):
        found.setdefault(mutant.operator, []).append(mutant.after)
    return found


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [
        ("comparison", "a < b", ["(a <= b)", "(a >= b)"]),
        ("comparison", "a in b", ["(a not in b)"]),
        ("and-or", "a and b", ["(a or b)"]),
        ("operand dropped", "a and b", ["(b)", "(a)"]),
        ("arithmetic", "a + b", ["(a - b)"]),
        ("constant", "a = 5", ["(6)", "(4)"]),
        ("constant", "def f(a=True): ...", ["False"]),
        ("not or sign dropped", "not a", ["(a)"]),
        ("condition negated", "if a: b = c", ["(not (a))"]),
        ("returns None", "def f(a): return a", ["return None"]),
        ("return negated", "def f(a): return a < b", ["return not (a < b)"]),
        ("statement deleted", "def f(a): a.b = c", ["pass"]),
        ("statement deleted", "def f(a): raise a", ["pass"]),
        ("augmented", "a += b", ["a -= b"]),
        ("min max any all", "min(a, b)", ["(max(a, b))"]),
        ("sorting reversed", "sorted(a)", ["(sorted(a, reverse=True))"]),
        ("sorting reversed", "sorted(a, reverse=True)", ["(sorted(a))"]),
        ("entry dropped", "{a: b, c: d}", ["({c: d})", "({a: b})"]),
        ("entry dropped", "(a, b)", ["((b,))", "((a,))"]),
        ("filter dropped", "[a for a in b if c]", ["([a for a in b])"]),
    ],
)
def test_each_operator_makes_its_changes(operator: str, source: str, expected: list[str]) -> None:
    assert changes_of(source)[operator] == expected


def test_every_operator_finds_something_to_break() -> None:
    folders = ("schedulerd/core", "contract/sharing")
    used = {mutant.operator for folder in folders for mutant in mutants_in(ROOT / folder, ROOT)}

    assert used == set(OPERATORS)


def test_false_is_made_true_and_not_none() -> None:
    assert changes_of("def f(): return False") == {"constant": ["True"], "statement deleted": ["pass"]}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Says 1 < 2."""', id="docstrings"),
        pytest.param("a: Literal[1]", id="annotations"),
        pytest.param("def f() -> 'A | B': ...", id="what a function returns"),
        pytest.param("__all__ = ['a', 'b']", id="__all__"),
        pytest.param("def f():\n log.info('a', 1)", id="log lines"),
        pytest.param("a = f'{b + 1}'", id="the text of f-strings"),
        pytest.param("@cached(1)\ndef f(): ...", id="decorators"),
    ],
)
def test_left_alone_are(source: str) -> None:
    assert changes_of(source) == {}


def test_every_mutant_is_another_program() -> None:
    mutants = choose(mutants_in(ROOT / "contract/sharing", ROOT), 1000, seed=1)
    forms = {(mutant.path, ast.dump(ast.parse(mutant.source))) for mutant in mutants}

    assert len(forms) == len({mutant.name for mutant in mutants}) == len(mutants) > 100


def test_a_seed_gives_the_same_choice_and_a_larger_count_holds_the_smaller() -> None:
    mutants = mutants_in(ROOT / "contract/sharing", ROOT)

    assert choose(mutants, 5, seed=1) == choose(mutants, 9, seed=1)[:5] != choose(mutants, 5, seed=2)


def test_a_name_outlives_lines_that_move() -> None:
    before, after = mutants_of("a.py", "a = 5\n"), mutants_of("a.py", "\n\nb = c\na = 5\n")

    assert [mutant.name for mutant in before] == [mutant.name for mutant in after]


def test_the_lines_of_a_compound_statement_are_its_head() -> None:
    (mutant, *_) = mutants_of("a.py", "if a < b:\n    c()\n")

    assert mutant.lines == (1, 1)


def test_only_functions_can_be_swapped() -> None:
    before = compile("A = 1\ndef f(): return 1\n", "a.py", "exec")
    moved = compile("A = 1\n\ndef f(): return 3\n", "a.py", "exec")
    other = compile("A = 2\ndef f(): return 1\n", "a.py", "exec")

    assert [old.co_name for old, _ in swap.changed_functions(before, moved) or ()] == ["f"]
    assert swap.changed_functions(before, other) is None


def _loops_for_ever() -> bool:
    while True:
        pass


def _raises() -> bool:
    raise ValueError


@pytest.mark.parametrize(
    ("passes", "end"),
    [
        pytest.param(lambda: True, End.SURVIVED, id="tests that pass notice nothing"),
        pytest.param(lambda: False, End.KILLED, id="tests that fail do"),
        pytest.param(_raises, End.KILLED, id="an error of the run is a failure"),
        pytest.param(_loops_for_ever, End.TIMED_OUT, id="a loop without end is ended"),
    ],
)
def test_how_a_mutant_ends(passes: Callable[[], bool], end: End) -> None:
    assert [(job.name, how) for job, how in run_all([Job("a", passes, 1)], at_once=2)] == [("a", end)]


def test_a_reason_is_read_by_name() -> None:
    text = "# head\n\na.py:f: constant: 1 -> (2) | it is only a hint\n"

    assert reasons.read(text) == {"a.py:f: constant: 1 -> (2)": "it is only a hint"}
    assert reasons.stale(reasons.read(text), ["other"]) == ["a.py:f: constant: 1 -> (2)"]


@pytest.mark.parametrize("line", ["a.py:f: constant: 1 -> (2)", "a | ", " | because"])
def test_a_line_without_a_reason_is_refused(line: str) -> None:
    with pytest.raises(reasons.BadReason, match="Write: name of the mutant"):
        reasons.read(line)


def test_the_file_of_reasons_can_be_read() -> None:
    assert reasons.read(reasons.FILE.read_text("utf-8"))


@pytest.mark.parametrize(
    ("survived", "explained", "passed"),
    [
        pytest.param(5, 0, True, id="5 of 100 may go unnoticed"),
        pytest.param(6, 0, False, id="6 of 100 may not"),
        pytest.param(9, 4, True, id="those with a reason do not count"),
    ],
)
def test_a_folder_passes(survived: int, explained: int, passed: bool) -> None:
    ends = {str(number): End.SURVIVED if number < survived else End.KILLED for number in range(100)}
    result = Result("a", ends, 1.0, reasons={str(number): "why" for number in range(explained)})

    assert result.passed is passed
    assert (result.percent <= MAX_PERCENT) is passed


def test_tests_that_fail_by_themselves_prove_nothing() -> None:
    assert not Result("a", {"a": End.KILLED}, 1.0, trouble="tests fail").passed


@pytest.mark.parametrize("arguments", [["nowhere"], ["contract", "--count", "0"]])
def test_a_wrong_room_or_count_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert "contract/sharing" in capsys.readouterr().err


@pytest.mark.slow
def test_a_few_mutants_of_a_small_folder_are_tried_and_counted() -> None:
    command = [sys.executable, "-m", "tests.runners.mutants", "contract/sharing", "--count", "5", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)

    assert done.returncode in (0, 1), done.stderr
    folder, mutants, *ends = done.stdout.splitlines()[-1].split()[:6]
    assert (folder, int(mutants), sum(map(int, ends))) == ("contract/sharing", 5, 5)


_FORKS_ONE_THAT_LOOPS = """
import os
from tests.runners.mutation.forks import Job, run_all

def loop():
    os.write(pipe, str(os.getpid()).encode())
    while True:
        pass

pipe = os.dup(1)
list(run_all([Job("a", loop, 100)], at_once=1))
"""


def _wait_until_it_ends(pid: int) -> None:
    handle = os.pidfd_open(pid)
    ends = select.poll()
    ends.register(handle, select.POLLIN)
    try:
        assert ends.poll(20_000), f"process {pid} outlives its parent"
    finally:
        os.close(handle)


def test_a_mutant_ends_with_the_process_that_tries_it() -> None:
    command = [sys.executable, "-c", _FORKS_ONE_THAT_LOOPS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(os.read(parent.stdout.fileno(), 20))
        parent.kill()
        _wait_until_it_ends(child)


def test_the_survey_ends_with_the_command_that_was_killed() -> None:
    command = [sys.executable, "-m", "tests.runners.mutants", "contract/sharing", "--count", "5"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as parent:
        assert parent.stderr
        parent.stderr.readline()  # its first line is said just before the survey begins
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        until = time.monotonic() + 20
        while not (found := children.read_text().split()):
            assert time.monotonic() < until, "no survey began"
        parent.kill()
        _wait_until_it_ends(int(found[0]))

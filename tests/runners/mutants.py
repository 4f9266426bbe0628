"""`make mutants`: breaks one line at a time of the pure folders, and says which breaks no fast test notices.

`ROOM=` names a folder or the beginning of one, `COUNT=` how many mutants a folder (500), `SEED=` which ones.
A survivor is killed by a test, or has its reason in `mutants_survivors.txt`.
Each mutant lives in a forked process; no file is ever changed.
"""

import argparse
import importlib
import os
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.runners.mutation import forks, reasons, reimport
from tests.runners.mutation.forks import End, Job
from tests.runners.mutation.mutant import Mutant, choose, mutants_in
from tests.runners.mutation.survey import Lines, Survey

ROOT = Path(__file__).parent.parent.parent
FOLDERS: dict[str, tuple[str, ...]] = {
    "contract/sharing": ("tests/contract",),
    "deviceplugin/core": ("tests/deviceplugin/core", "tests/deviceplugin/test_reconciler.py"),
    "schedulerd/core": ("tests/schedulerd/core", "tests/schedulerd/protocol"),
    "webhook/admission": (
        "tests/webhook/admission",
        "tests/webhook/offline/test_audit.py",
        "tests/webhook/apiserver/test_generated.py",
    ),
}
"""The pure folders, and the fast tests of each room that need no process of their own.

Simulations are not among them (`tests/schedulerd/policies`), nor the same cases through a command line: they take ten
times as long, and hardly see what the tables have not."""
MAX_PERCENT = 5.0
_OPTIONS = ("-q", "-s", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow and not cluster and not node")
_WARM = ("hypothesis.stateful", "yaml", "jsonpatch", "xdist.scheduler", "kubernetes", "flask", "cryptography.x509")
"""Imported before any fork: none of ours."""


@dataclass(frozen=True, slots=True)
class Result:
    """How the mutants of one folder ended."""

    folder: str
    ends: dict[str, End]
    seconds: float
    trouble: str = ""
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def survivors(self) -> list[str]:
        return sorted(name for name, end in self.ends.items() if end is End.SURVIVED)

    @property
    def unnoticed(self) -> list[str]:
        return [name for name in self.survivors if name not in self.reasons]

    @property
    def percent(self) -> float:
        return 100 * len(self.unnoticed) / max(1, len(self.ends))

    @property
    def passed(self) -> bool:
        return bool(self.ends) and not self.trouble and self.percent <= MAX_PERCENT

    def row(self) -> str:
        count = Counter(self.ends.values())
        explained = len(self.survivors) - len(self.unnoticed)
        return (
            f"{self.folder:<20}{len(self.ends):>9}{count[End.KILLED]:>8}{count[End.TIMED_OUT]:>11}{explained:>13}"
            f"{len(self.unnoticed):>11}{self.percent:>9.1f} %{self.seconds / max(1, len(self.ends)):>8.2f} s"
        )


HEAD = (
    f"{'folder':<20}{'mutants':>9}{'killed':>8}{'timed out':>11}{'with reason':>13}{'unnoticed':>11}{'percent':>11}"
    f"{'each':>10}"
)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def try_folder(folder: str, tests: Sequence[str], mutants: list[Mutant], at_once: int) -> Result:
    """Try these mutants of a folder with these tests."""
    began = time.monotonic()
    names = {mutant.name: mutant for mutant in mutants}
    survey = _survey(folder, tests, list(names.values()), at_once)
    ends = dict(survey.ends)
    if not survey.trouble.startswith("tests fail"):
        ends |= _reimported(survey, at_once)
    return Result(folder, ends, time.monotonic() - began, survey.trouble, reasons.read(reasons.FILE.read_text("utf-8")))


def _survey(folder: str, tests: Sequence[str], mutants: list[Mutant], at_once: int) -> Survey:
    """Run the survey in a process of its own, so that this one never imports what the mutants change."""
    paths = frozenset(str(file) for file in (ROOT / folder).rglob("*.py"))
    receive, send = os.pipe()
    parent = os.getpid()
    if not (pid := os.fork()):
        code = 1
        try:
            forks.end_with_parent(parent)
            os.close(receive)
            _send(send, _surveyed(mutants, paths, tests, at_once))
            code = 0
        finally:
            os._exit(code)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    if not told:
        raise SystemExit(f"the tests of {folder} could not be run. Run them alone: pytest {' '.join(tests)}")
    ends, left, seconds, trouble, ran = pickle.loads(told)
    lines = Lines(ROOT, paths, ran)
    return Survey(mutants, lines, at_once, _say, seconds, ends, left, trouble)


def _surveyed(mutants: list[Mutant], paths: frozenset[str], tests: Sequence[str], at_once: int) -> object:
    kept = os.fdopen(os.dup(2), "w")
    forks.silence()
    survey = Survey(mutants, Lines(ROOT, paths), at_once, lambda text: print(f"  {text}", file=kept, flush=True))
    survey.lines.start()
    code = pytest.main([*_OPTIONS, *tests], plugins=[survey])
    if not survey.seconds:
        survey.trouble = f"tests fail to be collected: pytest ended with {code}"
    return survey.ends, survey.left, survey.seconds, survey.trouble, survey.lines.ran


def _send(descriptor: int, value: object) -> None:
    with os.fdopen(descriptor, "wb") as pipe:
        pickle.dump(value, pipe)


def _reimported(survey: Survey, at_once: int) -> dict[str, End]:
    ends: dict[str, End] = {}
    for job, end in forks.run_all((_job(mutant, survey) for mutant in survey.left), at_once=at_once):
        ends[job.name] = end
        survey.say_survivor(job.name, end)
        if len(ends) % 25 == 0 or len(ends) == len(survey.left):
            _say(f"{len(ends)} of {len(survey.left)} with an import")
    return ends


def _job(mutant: Mutant, survey: Survey) -> Job:
    tests = survey.in_order(survey.lines.tests_near(mutant.path, survey.seconds)) or survey.in_order(survey.seconds)
    return Job(mutant.name, lambda: reimport.passes(mutant, ROOT, tests, _OPTIONS), 20 + survey.limit(tests))


def _warm() -> None:
    """Import what is not ours, and make hypothesis try the same few examples every time."""
    for name in _WARM:
        importlib.import_module(name)
    from hypothesis import HealthCheck, settings

    few = settings(
        derandomize=True, max_examples=25, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    settings.register_profile("mutants", few)
    settings.load_profile("mutants")
    random.seed(0)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description="Break one line at a time; see who notices.")
    parser.add_argument("room", nargs="?", default="", help="a folder or the beginning of one; none: all four")
    parser.add_argument("--count", type=int, default=500, help="mutants a folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2, help="mutants tried at one time")
    parser.add_argument("--file", default="", help="only mutants of paths that contain this")
    chosen = parser.parse_args(arguments)
    if chosen.count < 1 or not any(folder.startswith(chosen.room) for folder in FOLDERS):
        parser.error(f"COUNT is 1 or more, and ROOM begins one of {', '.join(FOLDERS)}")
    return chosen


def main(arguments: Sequence[str]) -> int:
    chosen = _arguments(arguments)
    _warm()
    results = []
    for folder, tests in FOLDERS.items():
        if not folder.startswith(chosen.room):
            continue
        every = [mutant for mutant in mutants_in(ROOT / folder, ROOT) if chosen.file in mutant.path]
        mutants = choose(every, chosen.count, chosen.seed)
        _say(f"{folder}: {len(mutants)} of {len(every)} mutants, seed {chosen.seed}")
        _report_stale(folder)
        results.append(try_folder(folder, tests, mutants, chosen.at_once))
        _report(results[-1])
    print("\n" + "\n".join([HEAD, *(result.row() for result in results)]))
    return 0 if all(result.passed for result in results) else 1


def _report_stale(folder: str) -> None:
    """Name the reasons whose mutant is no more, as after a function was renamed."""
    known = [name for name in reasons.read(reasons.FILE.read_text("utf-8")) if name.startswith(f"{folder}/")]
    for name in reasons.stale(dict.fromkeys(known, ""), (mutant.name for mutant in mutants_in(ROOT / folder, ROOT))):
        print(f"  STALE      {name}: write its new name in {reasons.FILE.name}, or take the line away")


def _report(result: Result) -> None:
    if result.trouble:
        print(f"{result.folder}: {result.trouble}")
    for name in result.survivors:
        print(f"  {'reason ' if name in result.reasons else 'UNNOTICED'}  {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The warm process: collect a room's fast tests once, see which test runs which line, then try mutants by fork.

A pytest plugin that takes the place of the loop over tests.  A mutant that cannot be put into loaded modules is
handed back, with what this process saw, for `reimport.py`.
"""

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.runners.mutation import swap
from tests.runners.mutation.forks import End, Job, run_all
from tests.runners.mutation.mutant import Mutant

_ENOUGH = 300_000
"""So many lines of one test are looked at: a simulation runs millions, and the same ones."""
AT_IMPORT = ""
"""The name of what runs when the tests are collected."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Lines:
    """Which test ran which line of the folder: by file and line, the names of tests."""

    root: Path
    paths: frozenset[str]
    ran: dict[tuple[str, int], dict[str, None]] = field(default_factory=dict)
    functions_at_import: set[swap.Key] = field(default_factory=set)
    test: str = AT_IMPORT
    seen: int = 0
    """Lines of the present test so far."""

    def begin(self, test: str) -> None:
        self.test, self.seen = test, 0

    def start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    @staticmethod
    def stop() -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if self.seen > _ENOUGH or frame.f_code.co_filename not in self.paths:
            return None
        if self.test == AT_IMPORT:
            self.functions_at_import.add(swap.key_of(frame.f_code))
        return self._line

    def _line(self, frame: FrameType, _event: str, _argument: object) -> Any:
        self.ran.setdefault((frame.f_code.co_filename, frame.f_lineno), {})[self.test] = None
        self.seen += 1
        return self._line if self.seen <= _ENOUGH else None

    def tests_of(self, mutant: Mutant) -> set[str]:
        """Return the tests that run a mutant's lines."""
        file, (first, last) = str(self.root / mutant.path), mutant.lines
        return {test for line in range(first, last + 1) for test in self.ran.get((file, line), ())} - {AT_IMPORT}

    def tests_near(self, path: str, every: Iterable[str]) -> set[str]:
        """Return all tests of each test module of which one runs the file: what a dataclass writes shows no lines."""
        file = str(self.root / path)
        modules = {_module(test) for (other, _), tests in self.ran.items() if other == file for test in tests}
        return {test for test in every if _module(test) in modules}


def _module(test: str) -> str:
    return test.partition("::")[0]


@dataclass(slots=True)
class Survey:
    """The plugin, and what it has found in the end."""

    mutants: list[Mutant]
    lines: Lines
    at_once: int
    say: Say
    seconds: dict[str, float] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    left: list[Mutant] = field(default_factory=list)
    """Those that need an import."""
    trouble: str = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._measure(list(items.values()))
        self.lines.stop()
        passing = {name: item for name, item in items.items() if name in self.seconds}
        self._try(passing)
        return True

    def _measure(self, items: list[pytest.Item]) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            began = time.monotonic()
            self.lines.begin(item.nodeid)
            if run_item(item, following):
                self.seconds[item.nodeid] = time.monotonic() - began
        failed = [item.nodeid for item in items if item.nodeid not in self.seconds]
        if failed:
            self.trouble = f"{len(failed)} tests fail with no mutant, and are left out: {failed[:3]}"

    def _try(self, items: dict[str, pytest.Item]) -> None:
        jobs = []
        live, caches = swap.live_functions(self.lines.paths), swap.live_caches()
        for mutant in self.mutants:
            pairs = self._pairs(mutant)
            if pairs is None or not swap.can_swap(pairs, live) or self._ran_at_import(pairs):
                self.left.append(mutant)
            else:
                tests = [items[name] for name in self.in_order(self.lines.tests_of(mutant))]
                jobs.append(self._job(mutant, pairs, live, caches, tests))
        gc.freeze()  # else a collection in a child would copy the pages of everything that this process holds
        clean = Job("no mutant", lambda: run_items(items.values()), 600)
        for job, end in run_all([clean], at_once=1):
            if end is not End.SURVIVED:
                self.trouble = f"tests fail a second time in one process ({job.name}): no kill can be believed"
                return
        for done, (job, end) in enumerate(run_all(jobs, at_once=self.at_once), 1):
            self.ends[job.name] = end
            self.say_survivor(job.name, end)
            if done % 50 == 0 or done == len(jobs):
                self.say(f"{done} of {len(jobs)} without an import")

    def say_survivor(self, name: str, end: End) -> None:
        """Name it at once: a run of hundreds of mutants may be ended early."""
        if end is End.SURVIVED:
            self.say(f"survived: {name}")

    def _pairs(self, mutant: Mutant) -> list[tuple[CodeType, CodeType]] | None:
        file = self.lines.root / mutant.path
        before = compile(file.read_text("utf-8"), str(file), "exec")
        return swap.changed_functions(before, compile(mutant.source, str(file), "exec"))

    def _ran_at_import(self, pairs: list[tuple[CodeType, CodeType]]) -> bool:
        return any(swap.key_of(old) in self.lines.functions_at_import for old, _ in pairs)

    def _job(self, mutant: Mutant, pairs: Any, live: Any, caches: Any, tests: list[pytest.Item]) -> Job:
        def passes() -> bool:
            swap.swap(pairs, live, caches)
            return run_items(tests)

        return Job(mutant.name, passes, self.limit(test.nodeid for test in tests))

    def in_order(self, tests: Iterable[str]) -> list[str]:
        """Return the tests that passed: the quickest case of each test function, then its second, and so on.

        Cases of one function see the same things: what the first has not noticed, its second hardly will.
        """
        quickest = sorted((test for test in tests if test in self.seconds), key=lambda test: (self.seconds[test], test))
        seen, rounds = Counter[str](), dict[str, int]()
        for test in quickest:
            function = test.partition("[")[0]
            rounds[test], seen[function] = seen[function], seen[function] + 1
        return sorted(quickest, key=lambda test: rounds[test])  # stable: within a round the quickest first

    def limit(self, tests: Iterable[str]) -> int:
        """Return the seconds of processor time that these tests may take."""
        return 5 + int(3 * sum(self.seconds.get(test, 0.0) for test in tests))


def run_item(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run one test, again if need be; return whether it did not fail."""
    item._initrequest()  # type: ignore[attr-defined]  # a second run needs fresh fixtures; pytest has no public call
    return not any(report.failed for report in runtestprotocol(item, nextitem=following, log=False))


def run_items(items: Iterable[pytest.Item]) -> bool:
    tests = list(items)
    return all(run_item(test, following) for test, following in zip(tests, [*tests[1:], None], strict=True))

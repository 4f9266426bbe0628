"""Faults on a node with everything installed and pods with vGPUs running: no pod may notice them.

Each function takes the installed node (`House`) and returns its figures.  `make drills` runs them at full counts on a
node of their own, pytest at reduced counts on the tests' node.
"""

import contextlib
from collections.abc import Callable
from functools import partial

from testbed.cluster.installed import House, installed_house
from tests.runners.drills import Drill, count
from tests.system.install.mishaps import STEPS, working_pods


class _House:
    """One house for all drills of a run, opened by the first and closed by the last."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._house: House | None = None

    def run(self, step: Callable[[House, str, int], str], times: int, *, last: bool) -> str:
        if self._house is None:
            self._house = self._stack.enter_context(installed_house(say=lambda _: None))
        try:
            with working_pods(self._house) as namespace:
                return step(self._house, namespace, times)
        finally:
            if last:
                self._stack.close()


_SHARED = _House()
DRILLS = [Drill(what, partial(_SHARED.run, step, count(full), last=step is STEPS[-1][1])) for what, step, full in STEPS]

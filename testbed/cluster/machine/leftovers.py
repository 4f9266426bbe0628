"""Remove everything that a run made: its processes, its bridge, its control groups, its folder.

The rule: there is one way of ending for all.  The end of a test, `down`, and the next run after a kill -9 call the same
`remove`.  It starts from what is really there, not from what was remembered.
"""

import contextlib
import os
import shutil
import signal
import time

from testbed.cluster.cache import Say, locked
from testbed.cluster.errors import BrokenError
from testbed.cluster.machine import cgroups, network, runs
from testbed.cluster.machine.processes import marked_pids
from testbed.cluster.machine.runs import Run


def remove_abandoned(*, say: Say) -> list[str]:
    """End the runs whose owner died without ending them; return their names."""
    with locked(runs.root() / "leftovers.lock"):
        abandoned = [run for run in runs.known() if not run.owner.is_alive]
        for run in abandoned:
            say(f"removing what run {run.name} left behind (its owner {run.owner.pid} is gone)")
            remove(run)
        for folder in runs.never_begun():
            shutil.rmtree(folder, ignore_errors=True)
    return [run.name for run in abandoned]


def remove(run: Run) -> None:
    _end_processes(run)
    if os.geteuid() == 0:  # only root can have made these
        network.remove_links(run)
        cgroups.remove(run)
    shutil.rmtree(run.folder, ignore_errors=True)


def _end_processes(run: Run) -> None:
    deadline = time.monotonic() + 20
    while pids := list(marked_pids(run.name)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise BrokenError(f"processes of run {run.name} do not die: {pids}", "see what they wait for: ps -o wchan")
        time.sleep(0.05)

"""Processes before whatever else the machine does, so that a figure is theirs and not the machine's load.

A nice value would not do: it counts within a session only.  Where real-time scheduling is not allowed, nothing changes.
"""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def going_first(*pids: int, with_children: bool = False) -> Iterator[None]:
    """Let these processes have the processor at once for the length of a block; what they start only if told so."""
    _schedule(os.SCHED_RR | (0 if with_children else os.SCHED_RESET_ON_FORK), 1, pids)
    try:
        yield
    finally:
        _schedule(os.SCHED_OTHER, 0, pids)


def _schedule(policy: int, priority: int, pids: tuple[int, ...]) -> None:
    for pid in pids:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.sched_setscheduler(pid, policy, os.sched_param(priority))

"""Keeps a worker running: a killed one has a successor within a tenth of a second.

Owns that rule.  A container that dies too often is held back by the kubelet for minutes (CrashLoopBackOff); our own
parent process is not.  It loads the code once and forks, before anything of gRPC is alive.  May import nothing of ours.
"""

import ctypes
import logging
import os
import signal
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 5.0
_STEADY_SECONDS = 1.0
"""A worker that lived so long starts the count anew."""
_PR_SET_PDEATHSIG = 1


class _Stop(Exception):
    """We were told to end."""


def next_wait(wait: float, *, lived: float) -> float:
    """Seconds before the next worker: none after a long life, then ever more."""
    if lived >= _STEADY_SECONDS:
        return 0.0
    return min(max(wait * 2, _FIRST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)


def supervise(work: Callable[[], int]) -> int:
    """Runs `work` in a child, again whenever a signal ends it; its own exit, good or bad, is ours."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _raise_stop)
    wait = 0.0
    while True:
        began = time.monotonic()
        child = _fork(work)
        code = _wait_for(child)
        if code >= 0:
            return code
        wait = next_wait(wait, lived=time.monotonic() - began)
        log.warning("the worker was ended by signal %d: another one in %g s", -code, wait)
        try:
            time.sleep(wait)
        except _Stop:
            return 0


def _fork(work: Callable[[], int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # two plugins of one node would take the registration from each other for ever: die with the parent
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            code = work()
    except BaseException:
        log.exception("the worker failed")
    finally:
        logging.shutdown()
        os._exit(code)


def _wait_for(child: int) -> int:
    """The child's exit code, or minus its signal; a SIGTERM of ours goes on to it."""
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except _Stop:
            os.kill(child, signal.SIGTERM)


def _raise_stop(*_: object) -> None:
    raise _Stop

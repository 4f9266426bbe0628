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


_HEARD = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


def next_wait(wait: float, *, lived: float) -> float:
    """Seconds before the next worker: none after a long life, then ever more."""
    if lived >= _STEADY_SECONDS:
        return 0.0
    return min(max(wait * 2, _FIRST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)


def supervise(work: Callable[[], int], warm_up: Callable[[], object]) -> int:
    """Runs `work` in a child, again whenever a signal ends it; its own exit, good or bad, is ours.

    `warm_up` loads, while the first child already works, what later ones will then have from the start.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)  # they are waited for, and interrupt nothing
    wait, is_warm = 0.0, False
    while True:
        began = time.monotonic()
        child = _fork(work)
        if not is_warm:
            warm_up()
            is_warm = True
        code = _wait_for(child)
        if code >= 0:
            return code
        wait = next_wait(wait, lived=time.monotonic() - began)
        log.warning("the worker was ended by signal %d: another one in %g s", -code, wait)
        if signal.sigtimedwait(_HEARD - {signal.SIGCHLD}, wait) is not None:
            return 0


def _fork(work: Callable[[], int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
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
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if signal.sigwait(_HEARD) != signal.SIGCHLD:
            os.kill(child, signal.SIGTERM)

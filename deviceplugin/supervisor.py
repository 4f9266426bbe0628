"""Keep a worker running, and a spare beside it that takes its place at once when a signal ends the worker.

The module owns that rule.  The kubelet holds back a container that dies too often for minutes (CrashLoopBackOff); it
does not hold back our own parent process.  The parent loads the code once and forks, before any part of gRPC is alive.
"""

import contextlib
import ctypes
import functools
import logging
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)
_FIRST_WAIT_SECONDS = 0.1
"""A new worker has the processor to itself for this time."""
_LONGEST_WAIT_SECONDS = 5.0
_STEADY_SECONDS = 1.0
"""After a worker that lived this long, the waits start again from the first."""
_IDLE_SECONDS = 3600.0
_PR_SET_PDEATHSIG = 1
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}

Turn = Callable[[float], bool]
"""Wait so many seconds for the signal to begin; return whether it came."""
Work = Callable[[Turn], int]


def next_wait(wait: float, *, lived: float) -> float:
    """Return the seconds before the next spare is made: few after a long life, then more each time."""
    if lived >= _STEADY_SECONDS:
        return _FIRST_WAIT_SECONDS
    return min(max(wait * 2, _FIRST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)


@dataclass(slots=True)
class _Child:
    pid: int
    word: int
    """The writing end of its pipe: a byte tells the child to begin."""
    since: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        self.since = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # this child has just died too; the next signal says so
            os.write(self.word, b"!")

    def code(self) -> int | None:
        """Return the exit code of a child that has ended, or minus its signal."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        if not ended:
            return None
        os.close(self.word)
        return os.waitstatus_to_exitcode(status)


def supervise(work: Work, warm_up: Callable[[], object]) -> int:
    """Run `work` in a child, and again whenever a signal ends it; its own exit, good or bad, becomes ours.

    `warm_up` runs while the first child already works.  It loads what later children then have from the start.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # sigtimedwait takes them, so they interrupt nothing
    pair = _Pair(work)
    pair.fill()
    warm_up()
    code = None
    while code is None:
        pair.fill()
        code = pair.end() if _is_told_to_end(pair.seconds_left()) else pair.reap()
    return code


class _Pair:
    """The worker and its spare."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._worker: _Child | None = None
        self._spare: _Child | None = None
        self._wait = self._due = 0.0

    def fill(self) -> None:
        """Put the spare in a free place; make another spare when it is time."""
        if self._worker is None and self._spare is not None:
            self._spare.begin()
            self._worker, self._spare = self._spare, None
        if self._spare is not None or self.seconds_left() > 0:
            return
        if self._worker is None:
            self._worker = _fork(self._work, at_once=True)
        else:
            self._spare = _fork(self._work, at_once=False)

    def seconds_left(self) -> float:
        """Return the seconds until the next child is due."""
        return _IDLE_SECONDS if self._spare is not None else self._due - time.monotonic()

    def reap(self) -> int | None:
        """Free the places of children that have ended; return the exit code where the worker ended by itself."""
        if self._worker is not None and (code := self._worker.code()) is not None:
            if code >= 0:
                return code
            self._worker_died("worker", self._worker, code)
            self._worker = None
        if self._spare is not None and (code := self._spare.code()) is not None:
            self._worker_died("spare", self._spare, code)
            self._spare = None
        return None

    def _worker_died(self, place: str, child: _Child, code: int) -> None:
        now = time.monotonic()
        self._wait = next_wait(self._wait, lived=now - child.since)
        self._due = now + self._wait
        log.warning("the %s ended with %d: the next spare starts in %g s", place, code, self._wait)

    def end(self) -> int:
        """End the worker in good order.  The spare has nothing to put in order and dies with us."""
        if self._worker is None:
            return 0
        os.kill(self._worker.pid, signal.SIGTERM)
        return max(0, os.waitstatus_to_exitcode(os.waitpid(self._worker.pid, 0)[1]))


def _is_told_to_end(seconds: float) -> bool:
    """Wait until a child has ended, the time is over, or a signal tells us to end."""
    heard = signal.sigtimedwait(_SIGNALS, max(0.0, seconds))
    return heard is not None and heard.si_signo != signal.SIGCHLD


def _fork(work: Work, *, at_once: bool) -> _Child:
    parent, (turn, word) = os.getpid(), os.pipe()
    if at_once:
        os.write(word, b"!")
    pid = os.fork()
    if pid:
        os.close(turn)
        return _Child(pid, word)
    code = 1
    try:
        os.close(word)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        # die with the parent: two plugins on one node would take the registration from each other for ever
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            code = work(functools.partial(_has_come, turn))
    except BaseException:
        log.exception("the worker failed")
    finally:
        logging.shutdown()
        os._exit(code)


def _has_come(turn: int, seconds: float) -> bool:
    if not select.select([turn], [], [], seconds)[0]:
        return False
    if not os.read(turn, 1):
        os._exit(0)  # the supervisor is gone
    return True

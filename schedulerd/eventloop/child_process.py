"""The observer as a child process of the turn process: started, restarted when it ends, and ended with its parent.

The rule it owns: the pauses between starts, and the end of a child that has frozen, since it would never end by itself.
The child itself watches for its parent's death, so a killed daemon leaves no child behind.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Callable

from schedulerd.eventloop.loop import Loop, Seconds

log = logging.getLogger(__name__)

_FIRST_PAUSE: Seconds = 0.2
_LONGEST_PAUSE: Seconds = 10.0
_STEADY: Seconds = 30.0
"""A child that has run this long is restarted after the first pause."""
PARENT_VARIABLE = "NVSHARE_OBSERVER_OF"
_NEVER = float("inf")
_CHECK_EVERY: Seconds = 20.0
_MAX_MISSED = 3
"""Checks in a row without a message from the child.  One can be missed when the whole machine was suspended."""


class Companion:
    """The child process and the time of its next start.  `last_word` returns when it last sent anything."""

    def __init__(
        self,
        loop: Loop,
        arguments: list[str],
        last_word: Callable[[], Seconds | None],
        check_every: Seconds = _CHECK_EVERY,
    ) -> None:
        self._loop, self._last_word, self._check_every = loop, last_word, check_every
        self._command = [sys.executable, "-m", "schedulerd", "observe", *(one for one in arguments if one != "turns")]
        self._process: subprocess.Popen[bytes] | None = None
        self._started: Seconds = 0.0
        self._start_at: Seconds = _NEVER
        self._pause = _FIRST_PAUSE
        self._check_at: Seconds = _NEVER
        self._heard: Seconds | None = None
        self._missed = 0
        loop.add_alarm(lambda: self._start_at, lambda _now: self.start())
        loop.add_alarm(lambda: self._check_at, self._check)

    def start(self) -> None:
        """Start the child and watch for its end."""
        self._start_at = _NEVER
        self._started = self._loop.clock()
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, env=environment)
            descriptor = os.pidfd_open(self._process.pid)
        except OSError as error:
            self._kill()  # without a pidfd its end would not be noticed
            self._pause_first(f"the observer process cannot be started: {error}")
        else:
            self._loop.watch(descriptor, lambda _mask: self._ended(descriptor))
            self._missed, self._check_at = 0, self._started + self._check_every

    def _check(self, now: Seconds) -> None:
        """End a child that has sent nothing for too long.  It is restarted when it has ended."""
        self._check_at = now + self._check_every
        said = self._last_word()
        self._missed = self._missed + 1 if said == self._heard else 0
        self._heard = said
        if self._missed >= _MAX_MISSED and self._process is not None:
            silent = self._missed * self._check_every
            log.warning("the observer process has sent nothing for %.0f s: it is killed and restarted", silent)
            self._check_at = _NEVER
            self._process.kill()

    def _ended(self, descriptor: int) -> None:
        self._loop.close(descriptor)
        assert self._process is not None
        code = self._process.wait()
        self._process, self._check_at = None, _NEVER
        self._pause_first(f"the observer process has ended with status {code}")

    def _pause_first(self, why: str) -> None:
        now = self._loop.clock()
        self._pause = _FIRST_PAUSE if now - self._started > _STEADY else min(self._pause * 2, _LONGEST_PAUSE)
        log.warning("%s. It is restarted in %.1f s. Turns go on", why, self._pause)
        self._start_at = now + self._pause

    def end(self) -> None:
        """Tell the child to stop, and kill it if it has not stopped in 2 s."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

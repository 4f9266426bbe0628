"""The observer as a child of the turn process: started, started again when it dies, ended with it.

Owns the pauses between starts.  A child watches for its parent's death itself, so that a killed daemon leaves none.
May import the loop and the standard library.
"""

import logging
import os
import subprocess
import sys

from schedulerd.eventloop.loop import Loop, Seconds

log = logging.getLogger(__name__)

_FIRST_PAUSE: Seconds = 0.2
_LONGEST_PAUSE: Seconds = 10.0
_STEADY: Seconds = 30.0
"""Who has lived so long starts again at once."""
PARENT_VARIABLE = "NVSHARE_OBSERVER_OF"
_NEVER = float("inf")


class Companion:
    """The child and when to start it next."""

    def __init__(self, loop: Loop, arguments: list[str]) -> None:
        self._loop = loop
        self._command = [sys.executable, "-m", "schedulerd", "observe", *(one for one in arguments if one != "turns")]
        self._process: subprocess.Popen[bytes] | None = None
        self._started: Seconds = 0.0
        self._start_at: Seconds = _NEVER
        self._pause = _FIRST_PAUSE
        loop.add_alarm(lambda: self._start_at, lambda _now: self.start())

    def start(self) -> None:
        """Start it, and watch for its end."""
        self._start_at = _NEVER
        self._started = self._loop.clock()
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, env=environment)
            descriptor = os.pidfd_open(self._process.pid)
        except OSError as error:
            self._kill()  # one whose end we would not hear of
            self._pause_first(f"the observer cannot be started: {error}")
        else:
            self._loop.watch(descriptor, lambda _mask: self._ended(descriptor))

    def _ended(self, descriptor: int) -> None:
        self._loop.close(descriptor)
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        self._pause_first(f"the observer has ended ({code})")

    def _pause_first(self, why: str) -> None:
        now = self._loop.clock()
        self._pause = _FIRST_PAUSE if now - self._started > _STEADY else min(self._pause * 2, _LONGEST_PAUSE)
        log.warning("%s; it starts again in %.1f s; turns go on", why, self._pause)
        self._start_at = now + self._pause

    def end(self) -> None:
        """Tell it to stop, and do not wait for ever."""
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

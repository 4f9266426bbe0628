"""Find threads that hang: a call that never returns raises no error that anybody sees.

The rule it owns: how long is too long.  It is minutes, so that a card or a server that is merely slow is left alone.
"""

import time
from collections.abc import Callable

Seconds = float
_TOO_LONG: Seconds = 300.0


class Pulse:
    """One thread's pulse: it beats once a round."""

    def __init__(self, what: str, clock: Callable[[], Seconds] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._beaten_at = clock()

    def beat(self) -> None:
        """Note that the thread has finished a round."""
        self._beaten_at = self._clock()

    def complaint(self) -> str:
        """Return a sentence when the thread seems to hang; empty while it does not."""
        silent = self._clock() - self._beaten_at
        return f"{self._what} for {silent:.0f} s" if silent > _TOO_LONG else ""

"""Whether a thread that works for ever still gets round: a call that never comes back is no error that anybody sees.

Owns how long is too long: minutes, so that a card or a server that is merely slow is left alone.
"""

import time
from collections.abc import Callable

Seconds = float
_TOO_LONG: Seconds = 300.0


class Pulse:
    """Of one thread, which beats once a round."""

    def __init__(self, what: str, clock: Callable[[], Seconds] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._beaten_at = clock()

    def beat(self) -> None:
        """It gets round."""
        self._beaten_at = self._clock()

    def complaint(self) -> str:
        """Why it is taken to hang; empty while it is not."""
        silent = self._clock() - self._beaten_at
        return f"{self._what} for {silent:.0f} s" if silent > _TOO_LONG else ""

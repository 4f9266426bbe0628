"""The throttle: it postpones the connections of containers that have used up their budget, and reads them again later.

The rule it owns: no connection is closed because it sends too much.  The loop does not wait for a postponed descriptor
at all, otherwise epoll would report it again and again.  The connection that was postponed first is read first.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from schedulerd.policies import FOREVER, Seconds
from schedulerd.protocol.budget import Budget


class Alarms(Protocol):
    """What calls a function at a time: the loop."""

    def add_alarm(self, due: Callable[[], Seconds], ring: Callable[[Seconds], None]) -> None:
        """Call `ring` when the time has come that `due` says."""


class Source(Protocol):
    """A descriptor that brings lines or connections of a container."""

    def pause(self) -> None:
        """Stop waiting for it."""

    def go_on(self) -> None:
        """Wait for it again, if it is still open."""


class Throttle:
    """The postponed sources, by the budget of their container."""

    def __init__(self, loop: Alarms) -> None:
        self._waiting: dict[Budget, deque[Source]] = {}
        loop.add_alarm(self.next_alarm, self.resume)

    def postpone(self, budget: Budget, source: Source) -> bool:
        """Postpone a source until its budget is filled again.  Return whether it is the first of its container."""
        source.pause()
        waiting = self._waiting.get(budget)
        if waiting is not None:
            waiting.append(source)
            return False
        self._waiting[budget] = deque((source,))
        return True

    def next_alarm(self) -> Seconds:
        """Return when the first container may go on."""
        return min(budget.resumes_at for budget in self._waiting) if self._waiting else FOREVER

    def resume(self, now: Seconds) -> None:
        """Read again from as many sources as a round has lines for; the others follow in the next rounds."""
        for budget, waiting in tuple(self._waiting.items()):
            if budget.resumes_at > now:
                continue
            budget.refill(now)
            for _ in range(min(len(waiting), budget.limits.a_round)):
                waiting.popleft().go_on()
            if not waiting:
                del self._waiting[budget]

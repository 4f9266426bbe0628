"""A plain epoll loop: descriptors call functions, alarms say how long to sleep.

The rule it owns: a descriptor is closed only after the batch of events that it was in.  Otherwise an event of the batch
could reach another connection that got the same number.  No asyncio: a hand-off with it takes five to eight times as
long as in C; with this loop 1.5 times.
"""

import logging
import os
import select
import time
from bisect import bisect_left
from collections.abc import Callable

log = logging.getLogger(__name__)

Seconds = float
_LONGEST_SLEEP: Seconds = 3600.0
_SLOW_BATCH: Seconds = 0.1
_EVENTS_AT_ONCE = 1024
"""It is more than the connections of one container.  So a round also sees others when one container floods."""
LATENCY_BOUNDS: tuple[Seconds, ...] = (0.0001, 0.001, 0.01, 0.1)
_USUAL = LATENCY_BOUNDS[0]


class Loop:
    """A loop that waits for descriptors and alarms until it is stopped."""

    def __init__(self, clock: Callable[[], Seconds] = time.monotonic) -> None:
        self.clock = clock
        self.latencies = [0] * (len(LATENCY_BOUNDS) + 1)
        """By bucket of duration: the number of batches."""
        self.rounds = 0
        """The number of batches so far, this one included."""
        self.worked: Seconds = 0.0
        """The time in all batches together."""
        self.after: Callable[[], None] = lambda: None
        """Called after each event and alarm, to carry out orders."""
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._alarms: list[tuple[Callable[[], Seconds], Callable[[Seconds], None]]] = []
        self._closing: list[int] = []
        self._running = True

    def watch(self, descriptor: int, handler: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        """Call the handler with the event mask whenever the descriptor is ready."""
        self._epoll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events of a descriptor."""
        self._epoll.modify(descriptor, events)

    def close(self, descriptor: int) -> None:
        """Watch a descriptor no longer, and close it when the batch is over."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
        self._closing.append(descriptor)

    def add_alarm(self, due: Callable[[], Seconds], ring: Callable[[Seconds], None]) -> None:
        """Add an alarm: before each sleep, `due` returns when `ring` must be called."""
        self._alarms.append((due, ring))

    def stop(self) -> None:
        """Leave `run` after this batch."""
        self._running = False

    def run(self) -> None:
        """Run until the loop is stopped."""
        while self._running:
            self.turn()

    def turn(self) -> None:
        """Do one batch: sleep, handle the events that are ready, call the alarms that are due."""
        now = self.clock()
        due = now + _LONGEST_SLEEP
        for when, _ in self._alarms:
            upcoming = when()
            if upcoming < due:
                due = upcoming
        events = self._epoll.poll(due - now if due > now else 0, _EVENTS_AT_ONCE)
        began = self.clock()
        self.rounds += 1
        for descriptor, mask in events:
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler(mask)
                self.after()
        if began >= due:
            self._ring(began)
        if self._closing:
            self._close_all()
        self._count(self.clock() - began)

    def _ring(self, now: Seconds) -> None:
        for when, ring in self._alarms:
            if when() <= now:
                ring(now)
                self.after()

    def _close_all(self) -> None:
        while self._closing:
            os.close(self._closing.pop())

    def _count(self, seconds: Seconds) -> None:
        self.latencies[0 if seconds <= _USUAL else bisect_left(LATENCY_BOUNDS, seconds)] += 1
        self.worked += seconds
        if seconds > _SLOW_BATCH:
            log.warning("one batch of events took %.3f s: the turns of all containers waited for it", seconds)

"""The usage of GPUs: what each container has had of a GPU, and how busy a GPU is, as sums, a histogram and a window.

The rule it owns: the meaning of every figure that metrics and load report.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

Seconds = float

WAIT_BOUNDS: tuple[Seconds, ...] = (0.001, 0.01, 0.1, 1.0, 5.0, 30.0, 120.0)
"""The upper bounds of the histogram of waits.  There is one more bucket for longer waits."""
_WINDOW: Seconds = 10.0
_SAMPLE_EVERY: Seconds = 0.25
_BURST_MEMORY = 0.3
"""The weight of the last burst in the expected burst."""


@dataclass(slots=True, eq=False)
class Share:
    """The usage of one GPU by one container."""

    virtual: Seconds = 0.0
    """The GPU time that it has had, divided by its weight."""
    burst: Seconds = 0.0
    """How long it is expected to be busy before it falls idle.  An unknown container has 0, so it is tried soon."""
    burst_so_far: Seconds = 0.0
    held: Seconds = 0.0
    busy: Seconds = 0.0
    """How long its processes had work in flight, as they say; never more than the time that passed."""
    in_flight: dict[int, Seconds] = field(default_factory=dict)
    """By process that tells it in its ledger slot: for how long it has had work in flight."""
    looked_at: Seconds | None = None
    """When the ledger was last read."""
    longest: Seconds = 0.0
    """The longest launch that its processes have learned."""
    waited: Seconds = 0.0
    waits: list[int] = field(default_factory=lambda: [0] * (len(WAIT_BOUNDS) + 1))
    turns: int = 0
    yields: int = 0
    overdue: int = 0
    using: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By process: its pageable and unpageable bytes, as it last said."""
    pageable: int = 0
    unpageable: int = 0
    promised: dict[int, int] = field(default_factory=dict)
    """By process that asked: the bytes that its container may grow to."""
    reserved: int = 0
    """The largest of the promised sizes."""
    needed: int = 0
    """The bytes that count for it on the GPU, contexts included."""
    pinned: int = 0
    """The part of `needed` that cannot be paged out."""
    above_cap: bool = False
    """A process has said that it has more than the cap of the container.  Operators are told once."""

    @property
    def expected_burst(self) -> Seconds:
        """The learned burst, or the current one if it is longer already."""
        return self.burst if self.burst > self.burst_so_far else self.burst_so_far

    def count_wait(self, seconds: Seconds) -> None:
        """Count a turn that began after this wait."""
        self.turns += 1
        self.waited += seconds
        self.waits[bisect_left(WAIT_BOUNDS, seconds)] += 1

    def count_turn(self, seconds: Seconds, *, idle: bool) -> None:
        """Count a turn that has ended.  A burst ends only when the container falls idle."""
        burst = self.burst_so_far + seconds
        if idle:
            self.burst += _BURST_MEMORY * (burst - self.burst)
            burst = 0.0
        self.burst_so_far = burst

    def count_in_flight(self, told: dict[int, tuple[Seconds, Seconds]], now: Seconds) -> None:
        """Count the time in flight that each process tells, and remember the longest launch.

        A process that tells 0 tells nothing.  The sum of all processes is never more than the time that has passed.
        """
        passed = 0.0 if self.looked_at is None else now - self.looked_at
        more = sum(max(0.0, time - self.in_flight.get(process, 0.0)) for process, (time, _) in told.items())
        self.in_flight |= {process: time for process, (time, _) in told.items() if time > 0.0}
        self.longest = max((longest for _, longest in told.values()), default=0.0)
        self.looked_at = now
        self.busy += min(more, passed)

    def promise(self, process: int, size: int) -> None:
        """Promise a process the size that it asked for.  0 ends its promise."""
        if size:
            self.promised[process] = size
        else:
            self.promised.pop(process, None)
        self.reserved = max(self.promised.values(), default=0)

    def set_using(self, process: int, pageable: int, unpageable: int) -> None:
        """Record the bytes that a process has.  If they are fewer than before, it has stopped growing: its promise
        ends."""
        before = self.using.get(process, (0, 0))
        if pageable + unpageable < sum(before):
            self.promise(process, 0)
        self.using[process] = (pageable, unpageable)
        self.pageable += pageable - before[0]
        self.unpageable += unpageable - before[1]

    def forget(self, process: int) -> None:
        """Forget a process that has gone, its memory and its promise."""
        self.promise(process, 0)
        self.in_flight.pop(process, None)
        pageable, unpageable = self.using.pop(process, (0, 0))
        self.pageable -= pageable
        self.unpageable -= unpageable

    @property
    def allocated(self) -> int:
        return max(self.pageable + self.unpageable, self.reserved)


@dataclass(slots=True, eq=False)
class BusyTime:
    """How long a GPU was held: in all, and in the last seconds."""

    total: Seconds = 0.0
    sampled_at: Seconds = float("-inf")
    samples: deque[tuple[Seconds, Seconds]] = field(default_factory=deque)

    def add(self, seconds: Seconds, now: Seconds) -> None:
        """Add that the GPU was held for the `seconds` up to now."""
        self.total += seconds
        if now - self.sampled_at >= _SAMPLE_EVERY:
            self._sample(seconds, now)

    def _sample(self, seconds: Seconds, now: Seconds) -> None:
        """Keep the total at the beginning of this time and now, so that idle time before it counts as idle."""
        self.sampled_at = now
        self.samples += ((now - seconds, self.total - seconds), (now, self.total))
        while len(self.samples) > 2 and self.samples[1][0] < now - _WINDOW:
            self.samples.popleft()

    def lately(self, *, now: Seconds, charged_at: Seconds, uncharged: Seconds) -> float:
        """Return the share of the last ten seconds in which somebody held it.

        `add` was last told at `charged_at`; since then somebody has held it for `uncharged`.
        """
        total = self.total + uncharged
        points = ((charged_at, self.total), (now, total)) if now > charged_at else ((now, total),)
        return min(1.0, max(0.0, (total - self._total_at(now - _WINDOW, points)) / _WINDOW))

    def _total_at(self, when: Seconds, newest: tuple[tuple[Seconds, Seconds], ...]) -> Seconds:
        before: tuple[Seconds, Seconds] | None = None
        for at, total in (*self.samples, *newest):
            if at > when:
                return total if before is None else _between(before, (at, total), when)
            before = (at, total)
        return self.total


def _between(before: tuple[Seconds, Seconds], after: tuple[Seconds, Seconds], when: Seconds) -> Seconds:
    part = (when - before[0]) / (after[0] - before[0])
    return before[1] + part * (after[1] - before[1])

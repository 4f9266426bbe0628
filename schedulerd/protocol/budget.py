"""What one container may ask of the turn loop, however many connections it has.

The rule it owns: a container is one customer.  Its connections share lines a round, lines a second and unread answers.
Pure: the clock is an argument.  A line counts once for each 64 bytes that it begins: that is what a usual one has.
"""

from collections.abc import Callable
from dataclasses import dataclass

from schedulerd.policies import FOREVER, Seconds

KIB = 1 << 10
_LINE_BYTES_LOG2 = 6
_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers; the reasons assume the largest honest container: 256 processes on 16 GPUs, restarts included."""

    lines_a_second: float = 4_000
    """256 processes that each say `using`, `done` and `want` in every other turn of 100 ms: 3,840.  A line takes the
    loop 10 to 20 us, so one container takes less than a tenth of a core from the others.

    One line may have many sent: a `want` of 16 GPUs tells 256 processes of 16 turns, 4,096 lines in some 10 ms.  That
    needs no limit of its own.  Each of those turns ends by a `done` of each process, so the next such burst costs the
    container 4,096 lines, a second's worth."""
    burst: float = 8_000
    """After a restart of the daemon 256 processes connect (16 lines each) and say `using` for each of 16 GPUs: 8,192,
    so all are back after the `announce` time of 2 s, most of them at once."""
    a_round: int = 32
    """What one round of the loop does for a container before it looks at the others: about half a millisecond."""
    resume_after: Seconds = 0.02
    """A container that has used up its lines gets no more before its budget is good for so long: short for a
    program, long enough that pausing and resuming its connections costs next to nothing."""
    unread: int = 512 * KIB
    """Answers that wait in the daemon for all its connections, beyond what the kernel holds for each: 2 KiB a process,
    which is some twenty lines for each of 256 that do not run just now."""


NO_LIMITS = Limits(lines_a_second=FOREVER, burst=FOREVER, a_round=_UNLIMITED, unread=_UNLIMITED)
"""For the control socket, and for the one socket that all share stand-alone, where nobody is told from anybody."""
CONNECTION = 16
"""Lines that a connection counts for: accept, hello with its lookup and welcome, and its end take as long."""


def lines_in(size: int) -> int:
    """Return for how many lines so many bytes count; at least one, for reading them."""
    return 1 + (size >> _LINE_BYTES_LOG2)


@dataclass(slots=True, eq=False)
class Budget:
    """What is left to one container."""

    limits: Limits = Limits()
    round: int = -1
    left_this_round: int = 0
    left: float = 0.0
    """Lines; below zero the container is in debt by what it said in its last round."""
    filled_at: Seconds = -FOREVER
    unread: int = 0
    """Bytes of answers that wait in the daemon."""

    def begin_round(self, number: int, clock: Callable[[], Seconds]) -> None:
        """Allow the lines of a new round, unless the budget is used up; only then is the clock looked at."""
        self.round = number
        if self.left <= 0:
            self.refill(clock())
        self.left_this_round = self.limits.a_round if self.left > 0 else 0

    def spend(self, lines: int) -> None:
        """Count lines that were handled."""
        self.left_this_round -= lines
        self.left -= lines

    def refill(self, now: Seconds) -> None:
        """Add what time has brought since the last refill."""
        limits = self.limits
        if self.filled_at == -FOREVER:
            self.left = limits.burst
        else:
            self.left = min(limits.burst, self.left + (now - self.filled_at) * limits.lines_a_second)
        self.filled_at = now

    @property
    def is_used_up(self) -> bool:
        return self.left <= 0

    @property
    def resumes_at(self) -> Seconds:
        """When the container's connections are read again."""
        limits = self.limits
        return self.filled_at + limits.resume_after - self.left / limits.lines_a_second

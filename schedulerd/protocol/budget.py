"""The budget of a container: how much of the turn loop's time it may use, however many connections it has.

The rule it owns: a container is one customer.  Its connections share the lines in a round, the lines in a second and
the unread answers.  A line counts once for each 64 bytes that it begins, since a usual line has 64 bytes.  Pure: the
clock is an argument.
"""

from collections.abc import Callable
from dataclasses import dataclass

from schedulerd.policies import FOREVER, Seconds

KIB = 1 << 10
_LINE_BYTES_LOG2 = 6
_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers.  Their reasons assume the largest honest container: 256 processes on 16 GPUs, restarts included."""

    lines_a_second: float = 4_000
    """256 processes that each say `using`, `done` and `want` in every other turn of 100 ms: 3,840.  A line takes the
    loop 10 to 20 us, so one container takes less than a tenth of a core from the others.

    One line may have many sent: a `want` of 16 GPUs tells 256 processes of 16 turns, 4,096 lines in some 10 ms.  That
    needs no limit of its own.  Each of those turns ends by a `done` of each process, so the next such burst costs the
    container 4,096 lines, a second's worth."""
    burst: float = 8_000
    """After a restart of the daemon 256 processes connect (16 lines each) and say `using` for each of 16 GPUs: 8,192
    lines.  So all are back within the `announce` time of 2 s, most of them at once."""
    a_round: int = 32
    """The lines of a container in one round of the loop, before the loop looks at the others: about half a
    millisecond."""
    resume_after: Seconds = 0.02
    """A container that has used up its lines is not read before its budget has lines for this time.  The time is short
    for a program, and long enough that pausing and resuming its connections costs next to nothing."""
    unread: int = 512 * KIB
    """The bytes of answers that may wait in the daemon for all its connections, beyond the bytes that the kernel holds
    for each.  It is 2 KiB a process: some twenty lines for each of 256 processes that do not run just now."""


NO_LIMITS = Limits(lines_a_second=FOREVER, burst=FOREVER, a_round=_UNLIMITED, unread=_UNLIMITED)
"""For the control socket, and for the shared stand-alone socket, where clients cannot be told apart."""
CONNECTION = 16
"""The lines that a new connection counts for.  Accept, `hello` with its lookup and `welcome`, and the end of the
connection take as long as 16 lines."""


def lines_in(size: int) -> int:
    """Return how many lines this many bytes count for.  It is at least one, for reading them."""
    return 1 + (size >> _LINE_BYTES_LOG2)


@dataclass(slots=True, eq=False)
class Budget:
    """The part of the limits that one container has left."""

    limits: Limits = Limits()
    round: int = -1
    left_this_round: int = 0
    left: float = 0.0
    """Lines.  Below zero the container is in debt by the lines of its last round."""
    filled_at: Seconds = -FOREVER
    unread: int = 0
    """Bytes of answers that wait in the daemon."""

    def begin_round(self, number: int, clock: Callable[[], Seconds]) -> None:
        """Allow the lines of a new round, unless the budget is used up.  The clock is read only if it is."""
        self.round = number
        if self.left <= 0:
            self.refill(clock())
        self.left_this_round = self.limits.a_round if self.left > 0 else 0

    def spend(self, lines: int) -> None:
        """Count lines that were handled."""
        self.left_this_round -= lines
        self.left -= lines

    def refill(self, now: Seconds) -> None:
        """Add the lines for the time since the last refill."""
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
        """The time when the container's connections are read again."""
        limits = self.limits
        return self.filled_at + limits.resume_after - self.left / limits.lines_a_second

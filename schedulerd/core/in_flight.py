"""Work in flight: how much of it a process may have, for how long it had some, and how long a holder may drain.

The rule it owns: what processes tell of themselves is held to what can be true.  Time in flight is never more than the
time that has passed, and a long launch moves a deadline once, to twice the grace at most.
"""

from schedulerd.core.model import ContainerState, Rules, Turn
from schedulerd.policies import Seconds

_QUIET_PARTS = 10
"""A process may have a tenth of the time in flight for which no other container has waited."""


def quiet_ms(rules: Rules, turn: Turn, now: Seconds) -> int:
    """Return for how long nobody has waited for a turn's GPUs, as far as it matters to the work in flight."""
    quiet = min(now - gpu.waited_at for gpu in turn.gpus)
    return int(min(quiet, _QUIET_PARTS * rules.alone_flight) * 1000)


def count_told(container: ContainerState, uuid: str, told: dict[int, tuple[Seconds, Seconds]], now: Seconds) -> None:
    """Count what the processes of a container tell of a GPU: time in flight, and the longest launch."""
    share, turn = container.shares[uuid], container.turns.get(uuid)
    if share.looked_at is None:
        share.looked_at = now if turn is None else turn.granted_at
    share.count_in_flight(told, now)


def count_done(turn: Turn, process: int, said: Seconds, now: Seconds) -> None:
    """Count the sum that `done` tells in equal parts on the GPUs of a turn; at most the length of the turn on each.

    A process that tells its time in the ledger is counted by that.
    """
    part = min(said / len(turn.gpus), now - turn.granted_at)
    for name in turn.names:
        share = turn.container.shares[name]
        if process not in share.in_flight:
            share.busy += part


def extend_deadline(rules: Rules, turn: Turn, now: Seconds) -> bool:
    """Give a holder more time if its longest launch may outlast the grace, and return whether it has more.

    A holder that drains by its own estimate is not overdue.  The estimate is the holder's own word, so it has at most
    twice the grace.
    """
    longest = max(turn.container.shares[name].longest for name in turn.names)
    if turn.extended or not longest or turn.reason != "overdue":
        return False
    turn.extended = True
    turn.deadline += max(0.0, min(rules.alone_flight + longest, 2 * rules.grace) - rules.grace)
    return turn.deadline > now

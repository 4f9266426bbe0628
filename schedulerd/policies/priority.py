"""A higher PriorityClass goes first, at once; equals take turns."""

from schedulerd.policies.base import FOREVER, Policy, Seconds, Standing


def _highest_first(one: Standing) -> float:
    return -one.priority


def _patience(holder: Standing, waiter: Standing, quantum: Seconds) -> Seconds:
    if waiter.priority > holder.priority:
        return 0.0
    return quantum if waiter.priority == holder.priority else FOREVER


POLICY = Policy(
    name="priority",
    sentence=(
        "A higher PriorityClass goes first and takes the GPU from a lower one at once; equals take a quantum each."
    ),
    rank=_highest_first,
    patience=_patience,
)

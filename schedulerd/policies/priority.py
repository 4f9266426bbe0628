"""The policy `priority`: a higher PriorityClass goes first, at once; equal ones take turns."""

from schedulerd.policies.base import FOREVER, Policy, Seconds, Snapshot


def _highest_first(one: Snapshot) -> float:
    return -one.priority


def _patience(holder: Snapshot, waiter: Snapshot, quantum: Seconds) -> Seconds:
    if waiter.priority > holder.priority:
        return 0.0
    return quantum if waiter.priority == holder.priority else FOREVER


POLICY = Policy(
    name="priority",
    sentence=(
        "A higher PriorityClass goes first and takes the GPU from a lower one at once. Equal ones take a quantum each."
    ),
    rank=_highest_first,
    patience=_patience,
)

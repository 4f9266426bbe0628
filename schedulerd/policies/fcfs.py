"""The policy `fcfs`: first come, first served, to completion."""

from schedulerd.policies.base import FOREVER, Policy, Seconds, Snapshot, by_arrival


def _until_it_is_idle(_holder: Snapshot, _waiter: Snapshot, _quantum: Seconds) -> Seconds:
    return FOREVER


POLICY = Policy(
    name="fcfs",
    sentence="The container that came first goes first. It keeps the GPU until it has nothing more to do.",
    rank=by_arrival,
    patience=_until_it_is_idle,
)

"""The policy `fair`, the default: GPU time by weight."""

from schedulerd.policies.base import Policy, Seconds, Snapshot

_USUAL_WEIGHT = 100


def _least_served_first(one: Snapshot) -> float:
    return one.virtual


def _until_it_has_had_more(holder: Snapshot, waiter: Snapshot, quantum: Seconds) -> Seconds:
    """Return a quantum, or longer while the holder has had less than the waiter.  This spares needless switches."""
    behind = (waiter.virtual - holder.virtual) * holder.weight / _USUAL_WEIGHT
    return behind if behind > quantum else quantum


POLICY = Policy(
    name="fair",
    sentence=(
        "The container that has had the least GPU time for its weight goes first. It keeps the GPU for a quantum, or"
        " until it has had as much as the container that waits."
    ),
    rank=_least_served_first,
    patience=_until_it_has_had_more,
    ages=False,
)

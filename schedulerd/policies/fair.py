"""Weighted GPU time, the default."""

from schedulerd.policies.base import Policy, Seconds, Snapshot

_USUAL_WEIGHT = 100


def _least_served_first(one: Snapshot) -> float:
    return one.virtual


def _until_it_has_had_more(holder: Snapshot, waiter: Snapshot, quantum: Seconds) -> Seconds:
    """At least a quantum; longer while the holder has still had less than who waits, which spares needless switches."""
    behind = (waiter.virtual - holder.virtual) * holder.weight / _USUAL_WEIGHT
    return behind if behind > quantum else quantum


POLICY = Policy(
    name="fair",
    sentence=(
        "Who has had the least GPU time for its weight goes first, and keeps the GPU for a quantum or until it has had"
        " as much as who waits."
    ),
    rank=_least_served_first,
    patience=_until_it_has_had_more,
    ages=False,
)

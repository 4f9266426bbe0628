"""Shortest expected burst first."""

from schedulerd.policies.base import Policy, Snapshot, a_quantum_each


def _shortest_first(one: Snapshot) -> float:
    return one.burst


POLICY = Policy(
    name="sjf",
    sentence=(
        "Whose bursts of work have been the shortest goes first; a quantum each, so that a wrong guess costs no more"
        " than that."
    ),
    rank=_shortest_first,
    patience=a_quantum_each,
)

"""The policy `sjf`: the shortest expected burst of work goes first."""

from schedulerd.policies.base import Policy, Snapshot, a_quantum_each


def _shortest_first(one: Snapshot) -> float:
    return one.burst


POLICY = Policy(
    name="sjf",
    sentence=(
        "The container whose bursts of work have been the shortest goes first. A turn is a quantum, so a wrong guess"
        " costs no more than that."
    ),
    rank=_shortest_first,
    patience=a_quantum_each,
)

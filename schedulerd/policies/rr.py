"""The policy `rr`: round robin."""

from schedulerd.policies.base import Policy, a_quantum_each, by_arrival

POLICY = Policy(
    name="rr",
    sentence="All containers take turns of a quantum each. Their weight does not count.",
    rank=by_arrival,
    patience=a_quantum_each,
)

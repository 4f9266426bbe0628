"""Round robin."""

from schedulerd.policies.base import Policy, a_quantum_each, by_arrival

POLICY = Policy(
    name="rr",
    sentence="Everybody in turn, a quantum each, whatever their weight.",
    rank=by_arrival,
    patience=a_quantum_each,
)

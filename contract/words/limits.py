"""The largest and smallest values that users may ask for; grammars, policies and the wire read them here."""

LARGEST_WEIGHT = 1000
DEFAULT_WEIGHT = 100
SHORTEST_QUANTUM_MS = 1
LONGEST_QUANTUM_MS = 3_600_000
LARGEST_COUNT = 1000
"""The most vGPUs in one namespace's ceiling."""
LARGEST_MEMORY = "4Ei"
"""More than any card has, and small enough for every reader's 64-bit integers and the API server's CEL to count
exactly."""
LARGEST_BYTES = 2**60
"""The same for a number of bytes on the wire."""

"""The wire's numbers: version, limits, times.  Its verbs and keys are in `schedulerd/PROTOCOL.md`."""

VERSION = 1
ANNOUNCE_MS = 2000
"""How long a holder continues without a daemon."""
GRACE_MS = 5000
"""How long a holder may take to drain before its gate is closed."""
FLIGHT_MS = 20
"""How much work a process keeps in flight in a stream while another container waits, unless one launch is longer."""
ALONE_FLIGHT_MS = 1000
"""How much it keeps in flight at most while no other container waits.  The operator may set another value."""
RETRY_MS = 50
"""The time between two attempts of a client to reach its daemon."""
HELLO_SECONDS = 10
MAX_CONNECTIONS = 16_384
MAX_ERRORS = 100
MAX_UNREAD_BYTES = 65_536
IDENTITY_SECONDS = 2.0
"""How long a welcome waits for the cluster's answer about a container."""

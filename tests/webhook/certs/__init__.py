"""The webhook's certificates: the core against a simulated cluster, the shell against a real API server."""

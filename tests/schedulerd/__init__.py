"""The scheduler daemon's tests: cores joined back to back first, then real sockets and processes."""

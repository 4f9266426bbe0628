"""What every room's tests may use: a real API server, a real node, a namespace a test (see tests/cluster/README.md)."""

pytest_plugins = ["tests.cluster.side_by_side", "tests.cluster.fixtures"]

"""Give every test a real API server, a real node, a namespace of its own (see testbed/cluster/README.md)."""

pytest_plugins = ["tests.plugins.side_by_side", "tests.plugins.kubernetes", "tests.plugins.optional"]

"""Tests mirror the rooms; `testbed/cluster/` is a real Kubernetes, `testbed/demo/` the one-minute story."""

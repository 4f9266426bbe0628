"""Tests mirror the rooms; `tests/cluster/` is a real Kubernetes, `tests/demo/` the one-minute story."""

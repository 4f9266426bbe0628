"""How `make test` runs two tests at a time: tests on a node one after the other, beside all others, file by file.

Tests on a node mostly wait, and share one node; other tests may be busy meanwhile.  A plugin of tests/conftest.py.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

DIST = "loadscope"
"""What `make test` gives as --dist."""
_FOLDERS = ("cluster", "deviceplugin", "install", "manifests", "nvidia")
_ON_A_NODE = tuple(f"tests/system/{folder}/" for folder in _FOLDERS)


class _Queues(LoadScopeScheduling):  # type: ignore[misc]  # xdist's schedulers have no types
    """One queue for the node; each other file is one of its own."""

    def _split_scope(self, nodeid: str) -> str:
        return "node" if nodeid.startswith(_ON_A_NODE) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return _Queues(config, log) if config.getoption("dist") == DIST else None

"""A folder whose name is short enough for a socket's path, which may have 107 characters."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ad-") as folder:
        yield Path(folder)

"""A fake API server for each test."""

from collections.abc import Iterator

import pytest

from tests.fakes.api_server import FakeApiServer, fake_api_server


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server

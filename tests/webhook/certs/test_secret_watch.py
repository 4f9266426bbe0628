"""`wait_for_change`: returns when the Secret changes, and says so when it cannot be watched."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.fakes.api_server import FakeApiServer, Lines, Reply, event, fake_api_server, thing
from webhook.certs.cluster import Cluster
from webhook.certs.core.errors import Unreachable
from webhook.certs.core.settings import Settings

SAME = event("ADDED", thing("nvshare-webhook-tls", 7))


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


def wait(fake: FakeApiServer) -> None:
    Cluster(fake.api, Settings()).wait_for_change("7", seconds=60)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(event("MODIFIED", thing("nvshare-webhook-tls", 8)), id="another version"),
        pytest.param(event("DELETED", thing("nvshare-webhook-tls", 7)), id="deleted"),
    ],
)
def test_it_returns_at_the_change_and_not_at_what_is_known(fake: FakeApiServer, change: Any) -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "99"}})
    fake.watches = [Lines([SAME, bookmark, change], then="silence")]
    thread = threading.Thread(target=wait, args=(fake,), daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert fake.requests[0].query["fieldSelector"] == "metadata.name=nvshare-webhook-tls"


def test_it_goes_on_waiting_while_nothing_changes(fake: FakeApiServer) -> None:
    fake.watches = [Lines([SAME, event("BOOKMARK", {"metadata": {"resourceVersion": "99"}})], then="silence")]
    came = threading.Event()

    def wait_and_tell() -> None:
        with suppress(Unreachable):  # the server goes when the test ends
            wait(fake)
        came.set()

    thread = threading.Thread(target=wait_and_tell, daemon=True)
    thread.start()
    fake.wait_for_watches(1)
    assert not came.wait(0.3)

    fake.over.set()
    thread.join(10)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        pytest.param(Reply({"message": "no"}, 403), "needs the role nvshare-webhook-certs", id="a role is missing"),
        pytest.param(Reply({"message": "down"}, 500), "with 500: down", id="an error"),
        pytest.param(Lines([SAME], then="cut"), "does not answer", id="a connection that is cut"),
        pytest.param(Lines(["text"]), "is no event", id="a line that is no event"),
        pytest.param(Lines([event("ERROR", {"code": 410, "message": "old"})]), "with 410: old", id="a version gone"),
        pytest.param(Lines([SAME]), "ended at once", id="a watch that ends at once"),
    ],
)
def test_a_secret_that_cannot_be_watched_makes_the_keeper_pause(
    fake: FakeApiServer, trouble: Lines | Reply, said: str
) -> None:
    fake.watches = [trouble]
    with pytest.raises(Unreachable, match=said):
        wait(fake)

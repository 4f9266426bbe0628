"""The observer's pages: reached by IPv4 and IPv6, honest about health, not stopped by who says nothing."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from schedulerd.observer.pages import Pages

LOCAL = ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])]


@pytest.fixture
def reason() -> list[str]:
    """Why it is not healthy."""
    return []


@pytest.fixture
def ailment() -> list[str]:
    """What it lacks."""
    return []


@pytest.fixture
def port(reason: list[str], ailment: list[str]) -> Iterator[int]:
    pages = Pages(0, lambda: iter(["up 1"]), lambda: "".join(reason), lambda: "".join(ailment))
    thread = threading.Thread(target=pages.serve_forever, args=(0.01,))
    thread.start()
    yield pages.server_port
    pages.shutdown()
    thread.join()
    pages.server_close()


@pytest.mark.parametrize("host", LOCAL)
def test_every_address_of_the_node_is_served(port: int, host: str) -> None:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as answer:
        assert answer.read() == b"up 1\n"


def test_what_ails_it_is_said(port: int, reason: list[str]) -> None:
    reason.append("the turn loop does not answer")
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10)

    assert failed.value.code == 503
    assert failed.value.read() == b"the turn loop does not answer\n"


def test_what_it_lacks_is_said_and_is_no_reason_to_end_it(port: int, ailment: list[str]) -> None:
    """A restart would take everybody's turns away, and not bring back a call that hangs in the driver."""
    ailment.append("no look at the cards has come to an end for 301 s")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
        assert answer.status == 200
        assert answer.read() == b"no look at the cards has come to an end for 301 s\n"


def test_another_path_says_which_there_are(port: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)

    assert failed.value.code == 404

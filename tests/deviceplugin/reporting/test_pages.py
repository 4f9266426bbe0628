"""The pages: what each answers, to whom, and that silent connections cost little."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from prometheus_client import CollectorRegistry, Gauge

from deviceplugin import pages
from deviceplugin.pages import Pages

HAS_IPV6 = socket.has_dualstack_ipv6()


@contextmanager
def served(reason: str = "") -> Iterator[int]:
    """The port."""
    registry = CollectorRegistry()
    Gauge("something", "Told.", registry=registry).set(3)
    server = Pages(0, registry, lambda: reason)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("path", "reason", "code", "told"),
    [
        pytest.param("/metrics", "", 200, "something 3.0", id="metrics"),
        pytest.param("/metrics?name=x", "NVML hangs.", 200, "something 3.0", id="metrics of an unhealthy one"),
        pytest.param("/healthz", "", 200, "The node is prepared", id="healthy"),
        pytest.param("/healthz", "NVML hangs.", 503, "NVML hangs.", id="not healthy: why"),
        pytest.param("/", "", 404, "There are /metrics and /healthz.", id="no page"),
        pytest.param("/metrics/x", "", 404, "There are", id="no page below"),
    ],
)
def test_what_a_page_says(path: str, reason: str, code: int, told: str) -> None:
    with served(reason) as port:
        answer = get(port, path)

    assert answer[0] == code
    assert told in answer[1]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", pytest.param("[::1]", marks=pytest.mark.skipif(not HAS_IPV6, reason="no IPv6 on this machine"))],
)
def test_both_families_are_served(host: str) -> None:
    with served() as port:
        assert get(port, "/healthz", host)[0] == 200


def test_a_machine_without_ipv6_is_served_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with served() as port:
        assert get(port, "/healthz")[0] == 200


def test_silent_connections_are_few_threads_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages._Answer, "timeout", 1.0)
    before = threading.active_count()
    with served() as port, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(60)]
        refused = [each for each in silent[pages._MOST_REQUESTS :] if each.recv(1) == b""]
        most = threading.active_count()
        for each in silent:
            assert each.recv(1) == b"", "each is ended"

        assert len(refused) == 60 - pages._MOST_REQUESTS
        assert most - before <= pages._MOST_REQUESTS + 1
        assert get(port, "/healthz")[0] == 200

"""The server as its clients see it, over TLS: its answers to good, bad, slow, silent and many clients."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.fakes.stalling_clients import STALLS, hold
from tests.webhook.files import Files
from tests.webhook.load import Connection, body
from tests.webhook.real import Server, serving
from webhook.certs.files import write_set
from webhook.serving.server import bind


@pytest.fixture(scope="module")
def server(files: Files) -> Iterator[Server]:
    with serving(files.cert, files.key, *files.arguments, "--body-seconds", "1", "--handshake-seconds", "2") as running:
        yield running


@pytest.fixture
def connection(server: Server, files: Files) -> Iterator[Connection]:
    opened = Connection(server.port, files.authority)
    yield opened
    opened.close()


def _review(**changes: Any) -> bytes:
    review = json.loads(body())
    review.update(changes)
    return json.dumps(review).encode()


def _request(**changes: Any) -> bytes:
    review = json.loads(body())
    review["request"].update(changes)
    return json.dumps(review).encode()


pytestmark = pytest.mark.slow
_UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


@pytest.mark.parametrize(
    ("data", "status", "says", "echoes"),
    [
        pytest.param(b"", 400, "empty", False, id="no body"),
        pytest.param(b"{", 400, "not JSON", False, id="half of one"),
        pytest.param(b"\xff\xfe", 400, "not JSON", False, id="no text"),
        pytest.param(b"[]", 400, "not a JSON object", False, id="a list"),
        pytest.param(b"NaN", 400, "NaN", False, id="not a number"),
        pytest.param(b"[" * 100_000, 400, "too deeply", False, id="a deep one"),
        pytest.param(b"1" * 5000, 400, "not JSON", False, id="a long number"),
        pytest.param(_review(apiVersion="admission.k8s.io/v1beta1"), 400, "v1beta1", True, id="an old version"),
        pytest.param(_review(kind="Review"), 400, "'Review'", True, id="another kind"),
        pytest.param(_review(request=None), 400, "uid", False, id="no request"),
        pytest.param(_request(uid=None), 400, "uid", False, id="no uid"),
        pytest.param(_request(object=None), 400, "request.object", True, id="no object"),
        pytest.param(_request(operation="DELETE"), 400, "'DELETE'", True, id="another operation"),
        pytest.param(_request(resource={"resource": "nodes", "version": "v1"}), 400, "'nodes'", True, id="a node"),
        pytest.param(_request(object={"spec": {"containers": {}}}), 400, "'containers'", True, id="a wrong type"),
    ],
)
def test_a_malformed_review_is_refused_in_words(
    connection: Connection, data: bytes, status: int, says: str, echoes: bool
) -> None:
    got, answer = connection.post(data)

    said = json.loads(answer)
    assert (got, says in said["error"]) == (status, True), said
    assert said.get("uid") == (_UID if echoes else None)
    assert connection.post(body())[0] == 200


def _raw(server: Server, files: Files, method: str, path: str, data: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    context = ssl.create_default_context(cafile=str(files.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=20)
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("POST", "/mutate", "text/plain", 415),
        ("POST", "/mutate", "", 415),
        ("POST", "/mutate", "application/json; charset=utf-8", 200),
        ("POST", "/validate?timeout=5s", "application/json", 200),
        ("GET", "/mutate", "application/json", 405),
        ("POST", "/elsewhere", "application/json", 404),
        ("GET", "/healthz", "", 200),
        ("HEAD", "/healthz", "", 200),
        ("GET", "/readyz", "", 200),
    ],
)
def test_paths_methods_and_content_types(
    server: Server, files: Files, method: str, path: str, kind: str, status: int
) -> None:
    data = body() if method == "POST" else b""
    headers = {"Content-Type": kind} if kind else {}

    assert _raw(server, files, method, path, data, headers)[0] == status


def test_a_body_over_the_limit_is_refused_unread(server: Server, files: Files) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": str(5 * 1024 * 1024)}
    assert _raw(server, files, "POST", "/mutate", b"", headers)[0] == 413


def test_a_chunked_body_over_the_limit_is_refused(server: Server, files: Files) -> None:
    context = ssl.create_default_context(cafile=str(files.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=20)
    pieces = (b" " * 65536 for _ in range(4 * 16 + 2))
    connection.request("POST", "/mutate", pieces, {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_body_that_does_not_arrive_is_given_up(server: Server, files: Files) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": "100"}
    began = time.monotonic()

    status, answer = _raw(server, files, "POST", "/mutate", b"{", headers)

    assert (status, b"in time" in answer) == (408, True)
    assert time.monotonic() - began < 5


def test_a_dry_run_is_answered_alike(connection: Connection) -> None:
    answers = [json.loads(connection.post(_request(dryRun=dry))[1]) for dry in (True, False)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("stall", STALLS, ids=lambda stall: stall.__name__)
def test_a_hundred_stalled_clients_keep_nobody_waiting(server: Server, files: Files, stall: Any) -> None:
    with hold(stall, server.port, files.authority, count=100):
        good = Connection(server.port, files.authority)
        began = time.monotonic()
        statuses = [good.post(body())[0] for _ in range(5)]
        took = time.monotonic() - began
        good.close()

    assert statuses == [200] * 5
    assert took <= 1.0


def test_more_silent_clients_than_places_keep_no_review_waiting(files: Files) -> None:
    places = 16
    limits = ("--connections", str(places), "--handshake-seconds", "600")
    with (
        serving(files.cert, files.key, *files.arguments, *limits) as server,
        hold(STALLS[0], server.port, files.authority, count=3 * places),
    ):
        good = Connection(server.port, files.authority)
        assert good.post(body())[0] == 200
        good.close()


def test_more_silent_clients_than_places_on_the_metrics_port_keep_no_scrape_waiting(
    server: Server, files: Files
) -> None:
    metrics_port = urlsplit(server.metrics_url).port
    assert metrics_port
    with hold(STALLS[0], metrics_port, files.authority, count=300):
        assert "nvshare_webhook_in_flight" in server.metrics()


def test_a_half_handshake_is_dropped_after_its_deadline(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as half:
        half.sendall(b"\x16\x03\x01")
        began = time.monotonic()
        assert half.recv(100) == b""
        assert 1.0 <= time.monotonic() - began <= 6.0


def test_too_many_at_once_are_asked_to_come_again(files: Files) -> None:
    with (
        serving(files.cert, files.key, *files.arguments, "--in-flight", "4") as server,
        hold(STALLS[-1], server.port, files.authority, count=4),
    ):
        _until(lambda: server.metrics()["nvshare_webhook_in_flight"] == 4)
        context = ssl.create_default_context(cafile=str(files.authority))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=20)
        connection.request("POST", "/mutate", body(), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Retry-After")) == (503, "1")
        connection.close()


def test_each_review_has_its_line_and_its_count(files: Files) -> None:
    with serving(files.cert, files.key, *files.arguments) as server:
        connection = Connection(server.port, files.authority)
        connection.post(body(1))
        connection.post(body(3))
        connection.post(b"{")
        _until(lambda: sum('"path"' in line for line in server.lines) == 3)
        found = server.metrics()
        connection.close()

    lines = [json.loads(line) for line in server.lines if '"path"' in line]
    assert [line["verdict"] for line in lines] == ["completed", "denied", "error"]
    assert lines[1]["codes"] == "MultiGpuWithoutMode"
    assert (lines[0]["namespace"], lines[0]["pod"], lines[0]["uid"]) == ("team-a", "trainer-0", _UID)
    assert all(line["ms"] > 0 for line in lines)
    counts = {
        name: value for name, value in found.items() if name.startswith("nvshare_webhook_reviews_total") and value
    }
    assert counts == {
        'nvshare_webhook_reviews_total{code="",path="/mutate",verdict="completed"}': 1,
        'nvshare_webhook_reviews_total{code="MultiGpuWithoutMode",path="/mutate",verdict="denied"}': 1,
        'nvshare_webhook_reviews_total{code="400",path="/mutate",verdict="error"}': 1,
    }
    assert found['nvshare_webhook_violations_total{code="MultiGpuWithoutMode"}'] == 1
    assert found["nvshare_webhook_certificate_not_after_seconds"] > time.time() + 86_400
    assert found['nvshare_webhook_review_seconds_count{path="/mutate"}'] == 3


def _until(holds: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_value_of_a_pod_never_breaks_a_line_or_shows_content(files: Files) -> None:
    review = json.loads(body())
    review["request"]["object"]["metadata"]["name"] = "a\nb\ud800"
    with serving(files.cert, files.key, *files.arguments, "--log-format", "text") as server:
        connection = Connection(server.port, files.authority)
        assert connection.post(json.dumps(review).encode())[0] == 200
        _until(lambda: any("path=/mutate" in line for line in server.lines))
        connection.close()
    (line,) = [line for line in server.lines if "path=/mutate" in line]
    assert r"pod=a\nb\ud800" in line
    assert "value-of-1" not in "".join(server.lines)


def test_sigterm_answers_what_is_in_flight_and_fails_readiness_first(files: Files) -> None:
    arguments = (*files.arguments[:2], "--drain-seconds", "1.5")
    with serving(files.cert, files.key, *arguments) as server:
        connection = Connection(server.port, files.authority)
        assert connection.post(body())[0] == 200
        server.process.send_signal(signal.SIGTERM)
        _until(lambda: _readiness(server, files) == 503)
        statuses = [_fresh(server, files) for _ in range(5)]
        assert statuses == [200] * 5
        assert server.process.wait(10) == 0


def _readiness(server: Server, files: Files) -> int:
    return _raw(server, files, "GET", "/readyz", b"", {})[0]


def _fresh(server: Server, files: Files) -> int:
    connection = Connection(server.port, files.authority)
    status, _ = connection.post(body())
    connection.close()
    return status


def test_new_certificate_files_are_served_within_two_seconds(files: Files, tmp_path: Path) -> None:
    write_set(tmp_path, ("127.0.0.1",), days=1)
    with serving(tmp_path / "tls.crt", tmp_path / "tls.key", *files.arguments) as server:
        first = _served(server.port)
        (tmp_path / "tls.crt").write_bytes(b"torn")
        time.sleep(0.6)
        assert _served(server.port) == first
        write_set(tmp_path, ("127.0.0.1",), days=1)
        began = time.monotonic()
        _until(lambda: _served(server.port) != first, 2.0)
        assert time.monotonic() - began <= 2.0


def _served(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "webhook", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=dict(os.environ))


@pytest.mark.parametrize("address", ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])])
def test_without_a_host_every_address_is_served(address: str) -> None:
    """Serve IPv6 too: the API server of an IPv6 cluster calls the IPv6 address of a pod."""
    with bind("any", 0, "port") as listener, socket.create_connection((address, listener.getsockname()[1])):
        assert listener.accept()


def test_a_port_in_use_is_said_in_a_sentence(server: Server, files: Files) -> None:
    pair = ("--cert", str(files.cert), "--key", str(files.key), *files.arguments)
    done = _run("serve", *pair, "--host", "127.0.0.1", "--port", str(server.port), "--metrics-port", "0")

    assert done.returncode == 2
    assert f"port {server.port} is in use" in done.stderr
    assert "--port 0 takes a free one" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "70000"], "--port='70000' is not allowed. It must be a port from 0 to 65535."),
        (["--volumes", "sometimes"], "--volumes='sometimes' is not allowed"),
        (["--idle-seconds", "5"], "It must be a whole number from 91"),
        (["--cert", "/nowhere/tls.crt"], "certs issue"),
        (["--namespace-file", "/nowhere.yaml"], "/nowhere.yaml cannot be read"),
        (["--settings", "/nowhere.yaml"], "/nowhere.yaml cannot be read"),
        (["--kubeconfig", "/nowhere"], "/nowhere is no kubeconfig"),
    ],
    ids=str,
)
def test_what_it_cannot_start_with_is_said_in_a_sentence(files: Files, arguments: list[str], says: str) -> None:
    given = ["--cert", str(files.cert), "--key", str(files.key), "--port", "0", "--metrics-port", "0", *arguments]
    done = _run("serve", *given)

    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_reviews_are_answered_side_by_side(server: Server, files: Files) -> None:
    statuses: list[int] = []

    def work() -> None:
        connection = Connection(server.port, files.authority)
        statuses.extend(connection.post(body())[0] for _ in range(5))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 160

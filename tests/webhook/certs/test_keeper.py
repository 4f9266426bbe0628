"""The thread that keeps the certificate never ends, whatever the API server or a proxy before it answers."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import kubernetes.client
import pytest

from adapters.kubernetes.client import ApiServer
from tests.webhook.certs.command import NOBODY, certs
from webhook.__main__ import main
from webhook.certs.cluster import Cluster
from webhook.certs.core import issue, secret
from webhook.certs.core.secret import Material
from webhook.certs.core.settings import Settings
from webhook.certs.keeper import keep


def answer(body: bytes, *, status: str = "200 OK", more: int = 0) -> bytes:
    """Return an HTTP answer that promises more bytes than it has."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body) + more}\r\n\r\n".encode() + body


@contextmanager
def answering(first: list[bytes], then: bytes) -> Iterator[str]:
    """Start a server with these answers for the first requests and another for the later ones; yield its URL."""
    left = list(first)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(left.pop(0) if left else then)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def whole_secret() -> bytes:
    """Return a Secret that needs no repair; read as a webhook configuration, it has no entries."""
    now = datetime.now(UTC)
    authority = issue.new_authority(now=now, days=100)
    leaf = issue.new_leaf(authority, Settings().server_names, now=now, days=10)
    data = secret.write(Material(authority, leaf))
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return answer(json.dumps({"metadata": {"resourceVersion": "1"}, "data": encoded}).encode())


TROUBLES = {
    "a body that breaks off": answer(b'{"kind": "Secret",', more=5000),
    "an error whose body breaks off": answer(b'{"mess', status="500 Internal Server Error", more=5000),
    "a page of a proxy": answer(b"<html>welcome</html>"),
    "no object": answer(b"[1]"),
    "an object of no such kind": answer(b'{"data": {"tls.crt": 3}}'),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_the_keeper_outlives_a_strange_answer(trouble: bytes) -> None:
    stop, came = threading.Event(), threading.Event()
    with answering([trouble], whole_secret()) as url:
        configuration = kubernetes.client.Configuration()
        configuration.host, configuration.retries = url, False
        cluster = Cluster(ApiServer(kubernetes.client.ApiClient(configuration)), Settings(watch_seconds=0.1))

        def deliver(_certificate: bytes, _key: bytes) -> None:
            came.set()

        thread = threading.Thread(target=keep, args=(cluster, deliver, stop), daemon=True)
        thread.start()
        assert came.wait(10), "the keeper is gone"
        stop.set()
    thread.join(10)


@pytest.mark.parametrize("what", ["a page of a proxy", "an object of no such kind"])
def test_an_audit_that_meets_a_strange_answer_ends_in_a_sentence(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering([], TROUBLES[what]) as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(NOBODY.replace("https://127.0.0.1:1", url))
        assert main(["audit", "--kubeconfig", str(kubeconfig)]) == 2

    assert "the cluster's pods and namespaces cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["a body that breaks off", "a page of a proxy", "an object of no such kind"])
def test_a_rotation_that_meets_a_strange_answer_ends_in_a_sentence(what: str, tmp_path: Path) -> None:
    with answering([], TROUBLES[what]) as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(NOBODY.replace("https://127.0.0.1:1", url))
        done = certs("rotate", "--patience-seconds", "0", "--poll-seconds", "0.1", kubeconfig=kubeconfig)

    assert done.returncode in (2, 3), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr

"""Pages over HTTP: the answer to each request; no number of silent or slow clients keeps an honest one out."""

import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from adapters.pages.health import ask_health, health_page
from adapters.pages.listeners import listen_on_path, listen_on_port
from adapters.pages.renderer import Page
from adapters.pages.request import Answer
from adapters.pages.server import Limits, Server

PATIENCE = 20
LARGE = b"x" * 8_000_000
"""More than a socket takes at once."""


def plain(text: str) -> Page:
    return lambda _accept: Answer(200, "text/plain", text.encode())


def broken(_accept: str) -> Answer:
    raise RuntimeError("a fault of ours")


PAGES: Mapping[str, Page] = {
    "/metrics": plain("up 1\n"),
    "/accept": lambda accept: Answer(200, "text/plain", accept.encode()),
    "/broken": broken,
    "/large": lambda _accept: Answer(200, "text/plain", LARGE),
}


@contextmanager
def served(pages: Mapping[str, Page] = PAGES, limits: Limits | None = None) -> Iterator[int]:
    """Serve the pages and yield the port."""
    listener = listen_on_port(0)
    port = listener.getsockname()[1]
    server = Server(listener, pages, limits=limits)
    server.start()
    try:
        yield port
    finally:
        server.close()


def get(port: int, path: str = "/metrics", host: str = "127.0.0.1") -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def exchange(port: int, said: bytes) -> bytes:
    with connect(port) as client:
        client.sendall(said)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    parts = list(iter(lambda: client.recv(65536), b""))
    return b"".join(parts)


def is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


# ---------------------------------------------------------------------------------------------- what is answered
@pytest.mark.parametrize(
    ("path", "code", "told"),
    [
        pytest.param("/metrics", 200, b"up 1\n", id="a page"),
        pytest.param("/metrics?name=x", 200, b"up 1\n", id="a query string changes nothing"),
        pytest.param("/", 404, b"There are /metrics and /accept", id="no page: which there are"),
        pytest.param("/metrics/x", 404, b"There are", id="no page below a page"),
        pytest.param("/broken", 500, b"see the log", id="a page that fails"),
        pytest.param("/large", 200, LARGE, id="a page that is larger than a socket's buffer"),
    ],
)
def test_what_a_path_is_answered(path: str, code: int, told: bytes) -> None:
    with served() as port:
        status, body = get(port, path)

    assert status == code
    assert told in body


@pytest.mark.parametrize(
    ("said", "status", "told"),
    [
        pytest.param(b"GET /metrics HTTP/1.0\r\n\r\n", b"200", b"up 1", id="HTTP/1.0"),
        pytest.param(b"GET /metrics HTTP/1.1\n\n", b"200", b"up 1", id="bare line feeds"),
        pytest.param(b"GET http://a.b/metrics HTTP/1.1\r\n\r\n", b"200", b"up 1", id="a whole address"),
        pytest.param(b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200", b"Content-Length: 5\r\n", id="HEAD"),
        pytest.param(b"POST /metrics HTTP/1.1\r\n\r\nbody", b"405", b"Use GET or HEAD.", id="another method"),
        pytest.param(b"GET /metrics\r\n\r\n", b"400", b"The first line must be like", id="HTTP/0.9"),
        pytest.param(b"\x16\x03\x01 \n\n", b"400", b"no HTTP/1 request", id="TLS"),
        pytest.param(b"GET //[ HTTP/1.1\r\n\r\n", b"400", b"cannot be read", id="no address"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000, b"431", b"Send fewer headers", id="no end"),
    ],
)
def test_what_a_request_is_answered(said: bytes, status: bytes, told: bytes) -> None:
    with served() as port:
        answer = exchange(port, said)

    assert answer.split(b" ")[1] == status
    assert told in answer


def test_a_head_request_gets_no_body() -> None:
    with served() as port:
        assert exchange(port, b"HEAD /metrics HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")


def test_a_page_is_told_what_the_client_accepts() -> None:
    with served() as port:
        assert exchange(port, b"GET /accept HTTP/1.1\r\nACCEPT:  a/b;q=1 \r\n\r\n").endswith(b"\r\n\r\na/b;q=1")


def test_a_request_that_comes_letter_by_letter_is_served() -> None:
    with served() as port, connect(port) as client:
        for letter in b"GET /metrics HTTP/1.1\r\n\r\n":
            client.sendall(bytes((letter,)))
        assert read_all(client).endswith(b"up 1\n")


@pytest.mark.parametrize("host", ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])])
def test_both_families_are_served(host: str) -> None:
    with served() as port:
        assert get(port, host=host)[0] == 200


def test_a_machine_without_ipv6_is_served_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with served() as port:
        assert get(port)[0] == 200


def test_a_port_is_free_again_when_the_server_is_closed() -> None:
    with served() as port:
        get(port)

    with listen_on_port(port) as again:
        assert again.getsockname()[1] == port


# ---------------------------------------------------------------------------------------------- hostile clients
def test_silent_connections_displace_each_other_and_keep_nobody_out() -> None:
    with served(limits=Limits(places=16)) as port, ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(80)]
        statuses = [get(port)[0] for _ in range(20)]

        assert statuses == [200] * 20
        assert all(is_ended(each) for each in silent[: 80 - 16])


KNOCK = """
import socket, sys
held = []
while True:
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    if len(held) == 500:
        print("knocking", flush=True)
    if len(held) > 500:
        held.pop(0).close()
"""


def test_connections_that_come_again_and_again_keep_nobody_out() -> None:
    with (
        served() as port,
        subprocess.Popen([sys.executable, "-c", KNOCK, str(port)], stdout=subprocess.PIPE) as knocking,
    ):
        try:
            assert knocking.stdout is not None
            knocking.stdout.readline()
            statuses = [get(port)[0] for _ in range(30)]
        finally:
            knocking.kill()

    assert statuses == [200] * 30


def test_clients_that_do_not_read_their_answers_keep_nobody_out() -> None:
    with served(limits=Limits(places=16)) as port, ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(port)).sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert [get(port)[0] for _ in range(10)] == [200] * 10


def test_a_client_keeps_its_place_for_a_fair_moment_and_no_longer() -> None:
    with served(limits=Limits(places=1, safe=1.0)) as port, connect(port) as slow, connect(port) as silent:
        with connect(port) as newcomer:
            newcomer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")

            assert read_all(slow).endswith(b"up 1\n"), "the others wait meanwhile"
            slow.close()
            assert read_all(newcomer).endswith(b"up 1\n")
        assert is_ended(silent)


def test_silent_clients_go_before_one_that_takes_its_answer() -> None:
    with served(limits=Limits(places=8)) as port, connect(port) as reader, ExitStack() as stack:
        reader.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        first = reader.recv(1)
        for _ in range(20):
            stack.enter_context(connect(port))
        assert get(port)[0] == 200, "all of them have been accepted"

        assert (first + read_all(reader)).endswith(LARGE)


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        pytest.param(b"", Limits(request=1.0), id="a silent one"),
        pytest.param(b"GET /met", Limits(request=1.0), id="half a request"),
        pytest.param(b"GET /large HTTP/1.1\r\n\r\n", Limits(answer=1.0), id="an answer that nobody reads"),
        pytest.param(b"GET /metrics HTTP/1.1\r\n\r\n", Limits(goodbye=1.0), id="no goodbye"),
    ],
)
def test_a_client_is_ended_when_its_time_is_over(said: bytes, limits: Limits) -> None:
    with served(limits=limits) as port:
        alone = psutil.Process().num_fds()
        check_that_it_is_ended(port, said, alone)


def check_that_it_is_ended(port: int, said: bytes, alone: int) -> None:
    with connect(port) as client:
        client.sendall(said)
        wait_for(lambda: psutil.Process().num_fds() == alone + 2)
        wait_for(lambda: psutil.Process().num_fds() == alone + 1)


def wait_for(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------- pages that are slow
class Gate:
    """A page that is made only when it is let through."""

    def __init__(self) -> None:
        self.open, self.begun, self.made = threading.Event(), threading.Event(), 0

    def __call__(self, _accept: str) -> Answer:
        self.begun.set()
        assert self.open.wait(PATIENCE)
        self.made += 1
        return Answer(200, "text/plain", str(self.made).encode())


def test_clients_that_ask_while_a_page_is_made_share_the_next_one() -> None:
    gate = Gate()
    with served({"/slow": gate, "/quick": plain("ok")}) as port, ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(11)]
        clients[0].sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        assert gate.begun.wait(PATIENCE)
        for each in clients[1:]:
            each.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        assert get(port, "/quick") == (200, b"ok"), "a page that is slow stops no other, and they have all been heard"
        gate.open.set()
        answers = [read_all(each)[-1:] for each in clients]

    assert answers == [b"1"] + [b"2"] * 10


def test_a_page_that_hangs_is_said_to_hang() -> None:
    gate = Gate()
    with served({"/slow": gate}, Limits(page=0.2)) as port:
        status, told = get(port, "/slow")
        gate.open.set()

    assert (status, b"takes too long" in told) == (503, True)


def test_a_newcomer_waits_while_every_client_waits_for_us() -> None:
    gate = Gate()
    with served({"/slow": gate, "/quick": plain("ok")}, Limits(places=2)) as port, ExitStack() as stack:
        waiting = [stack.enter_context(connect(port)) for _ in range(2)]
        for each in waiting:
            each.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        assert gate.begun.wait(PATIENCE)
        newcomer = stack.enter_context(connect(port))
        newcomer.sendall(b"GET /quick HTTP/1.1\r\n\r\n")
        gate.open.set()

        assert read_all(newcomer).endswith(b"ok")
        assert all(read_all(each).startswith(b"HTTP/1.1 200") for each in waiting)


# ---------------------------------------------------------------------------------------------- health by a socket file
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param("", (True, "All is well."), id="well"),
        pytest.param("NVML hangs.", (False, "NVML hangs."), id="not well: why"),
    ],
)
def test_health_is_told_through_a_socket_file(tmp_path: Path, reason: str, expected: tuple[bool, str]) -> None:
    path = tmp_path / "health.sock"
    path.touch()  # left behind
    server = Server(listen_on_path(path), {"/healthz": health_page(lambda: reason, lambda: "All is well.")})
    server.start()
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert ask_health(path, within=PATIENCE) == expected
    finally:
        server.close()


def test_a_process_that_is_not_there_is_not_well(tmp_path: Path) -> None:
    is_well, sentence = ask_health(tmp_path / "nobody.sock", within=1)

    assert not is_well
    assert "Is it running" in sentence


def test_a_process_that_does_not_answer_is_not_well(tmp_path: Path) -> None:
    with listen_on_path(tmp_path / "frozen.sock"):
        is_well, sentence = ask_health(tmp_path / "frozen.sock", within=0.1)

    assert (is_well, "does not answer: timed out" in sentence) == (False, True)

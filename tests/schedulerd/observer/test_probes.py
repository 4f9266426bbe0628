"""Probes: the turn loop's liveness hangs on nothing but the turn loop, and a frozen observer is started again."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.pages.listeners import listen_on_port
from adapters.pages.server import Server
from schedulerd.core.node_state import Node
from schedulerd.eventloop.child_process import Companion
from schedulerd.eventloop.loop import Loop
from schedulerd.observer.service import Observer
from schedulerd.settings import build_parser, read_settings
from tests.fakes.wire.client import PATIENCE, Daemon, running_daemon
from tests.fakes.wire.observed_daemon import observed_daemon, until


def probe(daemon: Daemon, verb: str) -> tuple[int, str]:
    """Return the exit code, and what the kubelet would write into its event."""
    command = [sys.executable, "-m", "schedulerd", verb, f"--control={daemon.control}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def is_ready(daemon: Daemon) -> bool:
    return probe(daemon, "readyz")[0] == 0


def test_a_turn_loop_without_an_observer_lives_and_is_not_ready(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        assert probe(daemon, "healthz") == (0, "The turn loop answers.\n")
        code, said = probe(daemon, "readyz")

    assert (code, "the observer has not connected yet" in said) == (2, True)


def test_a_turn_loop_that_is_frozen_is_found(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        assert daemon.process is not None
        os.kill(daemon.process.pid, signal.SIGSTOP)
        try:
            code, said = probe(daemon, "healthz")
        finally:
            os.kill(daemon.process.pid, signal.SIGCONT)

    assert (code, "does not answer" in said) == (2, True)


def test_a_turn_loop_that_is_gone_is_found(tmp_path: Path) -> None:
    with running_daemon(tmp_path) as daemon:
        daemon.end()
        code, said = probe(daemon, "healthz")

    assert (code, "Is nvshare-schedulerd running" in said) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_an_observer_that_is_frozen_or_dies_is_no_reason_to_end_the_turn_loop(
    tmp_path: Path, number: signal.Signals
) -> None:
    with observed_daemon(tmp_path) as (daemon, observer):
        until(lambda: is_ready(daemon))
        observer.send_signal(number)

        assert probe(daemon, "healthz")[0] == 0


def test_silent_connections_to_the_metrics_keep_neither_probes_nor_scrapes_out(tmp_path: Path) -> None:
    with observed_daemon(tmp_path) as (daemon, observer):
        port = next(one.laddr.port for one in observer.net_connections() if one.status == "LISTEN")
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?x=1", timeout=PATIENCE) as answer:
            assert b"nvshare_schedulerd_turn_loop_up 1" in answer.read()
        assert probe(daemon, "healthz")[0] == 0
        for one in silent:
            one.close()


@pytest.mark.parametrize(
    ("spoke_at", "reason"),
    [
        pytest.param(None, "has not connected yet", id="it never spoke"),
        pytest.param(980.0, "", id="it spoke a few beats ago"),
        pytest.param(979.0, "has sent nothing for 21 s", id="it is silent"),
    ],
)
def test_what_is_missing_beside_the_turns(spoke_at: float | None, reason: str) -> None:
    said = Node(observer_spoke_at=spoke_at).why_not_ready(1000.0)

    assert reason in said
    assert bool(said) == bool(reason)


# ---------------------------------------------------------------------------------------------- a frozen observer
class Frozen(Companion):
    """A child that sleeps; checked every 20 ms."""

    def __init__(self, loop: Loop, last_word: Callable[[], float | None]) -> None:
        super().__init__(loop, [], last_word, check_every=0.02)
        self._command = ["sleep", "60"]


def test_an_observer_that_says_nothing_more_is_ended_and_started_again() -> None:
    loop = Loop()
    companion = Frozen(loop, lambda: 1.0)
    companion.start()
    first = companion._process
    while companion._process is first or companion._process is None:
        loop.turn()
    companion.end()

    assert first is not None
    assert first.returncode == -signal.SIGKILL


def test_an_observer_that_goes_on_speaking_is_left_alone() -> None:
    loop = Loop()
    companion = Frozen(loop, loop.clock)
    companion.start()
    first, ends_at = companion._process, loop.clock() + 0.5
    while loop.clock() < ends_at:
        loop.turn()

    assert companion._process is first
    companion.end()


# ---------------------------------------------------------------------------------------------- the observer's pages
@pytest.fixture
def observer(tmp_path: Path) -> Observer:
    flags = [f"--control={tmp_path}/control.sock", f"--pod-resources={tmp_path}/kubelet.sock"]
    return Observer(read_settings(build_parser().parse_args(flags), {}))


def get(observer: Observer, path: str) -> tuple[int, bytes]:
    listener = listen_on_port(0)
    server = Server(listener, observer.pages())
    server.start()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    finally:
        server.close()


def test_a_page_of_an_observer_without_a_turn_process_says_so(observer: Observer) -> None:
    assert get(observer, "/healthz") == (503, b"the turn process does not answer\n")
    status, page = get(observer, "/metrics")
    assert (status, b"nvshare_schedulerd_turn_loop_up 0\n" in page) == (200, True)


def test_a_page_of_a_well_observer_says_which_nvml_answers(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "healthy", lambda: "")
    observer.cards._library.told = "NVML is /x."

    assert get(observer, "/healthz") == (200, b"ok. NVML is /x.\n")


def test_what_it_lacks_is_said_and_is_no_reason_to_call_it_ill(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "healthy", lambda: "")
    monkeypatch.setattr(observer, "ailment", lambda: "no look at the cards has come to an end for 301 s")

    assert get(observer, "/healthz") == (200, b"no look at the cards has come to an end for 301 s\n")

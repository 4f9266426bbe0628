"""A fault in a view or a request costs its asker an `error` line, and nobody a turn."""

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from contract.wire.control import Drain, PodFacts
from contract.wire.line import Line, decode
from schedulerd.control import requests as requests_module
from schedulerd.control.observers import Asker, Observers
from schedulerd.control.requests import Requests
from schedulerd.control.server import Control
from schedulerd.core.model import Container, Notice, Rules
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.loop import Loop
from schedulerd.protocol.budget import NO_LIMITS, Budget


class Scene:
    """A control socket whose loop the test turns, and somebody who asks."""

    def __init__(self, socket_path: Any) -> None:
        self.loop = Loop()
        self.turns = Turns(Rules(), epoch="0000000a")
        self.turns.join(1, Container(key="k", gpus=("GPU-1",)))
        self.observers = Observers()
        requests = Requests(self.turns, Node(), self.loop.clock, on_pod=self.refuse_pods)
        self.control = Control(self.loop, requests, self.observers)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(socket_path))
        listener.listen()
        self.control.listen(listener)
        self.listener = listener
        self.client = socket.socket(socket.AF_UNIX)
        self.client.connect(str(socket_path))
        self.client.settimeout(10)
        self.stream = self.client.makefile("rb")
        self.loop.turn()

    @staticmethod
    def refuse_pods(_key: str, _facts: PodFacts) -> None:
        raise KeyError("a fault of the core")

    def ask(self, line: str) -> list[Line]:
        """Return the lines of one answer."""
        self.client.sendall(line.encode() + b"\n")
        self.loop.add_alarm(lambda: self.loop.clock() + 0.01, lambda _now: None)
        heard = b""
        while not any(decode(raw).verb in ("end", "ok", "error") for raw in heard.splitlines()):
            self.loop.turn()
            try:
                heard += self.client.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
        return [decode(raw) for raw in heard.splitlines()]

    def close(self) -> None:
        self.stream.close()
        self.client.close()
        self.listener.close()


@pytest.fixture
def scene(tmp_path: Any) -> Iterator[Scene]:
    one = Scene(tmp_path / "control.sock")
    yield one
    one.close()


def raise_at_once(*_: object) -> Iterator[bytes]:
    raise KeyError("a fault of the view")


def raise_midway(*_: object) -> Iterator[bytes]:
    yield b"daemon epoch=1\n"
    raise ZeroDivisionError("a fault of the view")


@pytest.mark.parametrize("view", [raise_at_once, raise_midway], ids=["at once", "after its first line"])
def test_a_view_that_raises_ends_its_answer_by_an_error(
    scene: Scene, view: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests_module, "write_status", view)
    last = scene.ask("status")[-1]

    assert last.verb == "error"
    assert "its log says where" in last.words["message"]
    assert "a fault of the view" in caplog.text
    assert scene.ask("healthz") == [Line("ok")]


def test_a_request_that_fails_in_the_core_is_answered_and_logged_with_its_traceback(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    (answer,) = scene.ask("pod key=k uid=u")

    assert answer.verb == "error"
    assert "cannot be read" not in answer.words["message"]
    assert "KeyError: 'a fault of the core'" in caplog.text
    assert scene.ask("healthz") == [Line("ok")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("dance", "there is no request dance", id="an unknown verb"),
        pytest.param("quantum time=soon", "time='soon'", id="a time that is none"),
        pytest.param("drain gpu=GPU-77", "GPU-77 is not a GPU of this node; there are: GPU-1", id="an unknown GPU"),
        pytest.param("policy name=lottery", "'lottery' is no policy: there are fair", id="an unknown policy"),
        pytest.param("figures gpu=GPU-1 power=nan", "power='nan'", id="a figure that is no number"),
        pytest.param("pod key=k weight=0", "weight='0'", id="a weight by which nothing can be divided"),
        pytest.param("readyz", "the observer has not connected yet", id="not ready"),
    ],
)
def test_a_wrong_request_is_answered_and_is_no_fault(
    scene: Scene, line: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (answer,) = scene.ask(line)

    assert (answer.verb, says in answer.words["message"]) == ("error", True)
    assert "Traceback" not in caplog.text
    assert scene.ask("healthz") == [Line("ok")]


def test_a_request_that_fails_changes_no_files_and_tells_nobody_that_it_was_done() -> None:
    changed: list[int] = []
    turns = Turns(Rules(), epoch="0000000a")
    requests = Requests(turns, Node(), lambda: 0.0, on_steered=lambda: changed.append(1))
    with pytest.raises(requests_module.NotPossible):
        requests.answer(Drain("GPU-1"))

    assert changed == []


def test_a_notice_too_long_for_a_line_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    loop, observers = Loop(), Observers()
    ours, theirs = socket.socketpair()
    observers.add(Asker(Connection(1, ours, loop, "", Budget(NO_LIMITS)), "an observer"))
    observers.tell_notice(Notice("jam", ("k",), tuple(f"GPU-{number:050d}" for number in range(100))))
    observers.tell_notice(Notice("jam", ("k",), ("GPU-1",)))

    assert theirs.recv(4096) == b"notice kind=jam key=k gpus=GPU-1\n"
    assert "is not told of Happened" in caplog.text
    ours.close()
    theirs.close()

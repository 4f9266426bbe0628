"""What becomes of a container while the cluster says nothing of it, or said something of an older pod of its name.

The folders, the server and the loop are real and turned by the test; the observer and the kernel's word on which pod a
process runs in are the test's.
"""

import json
import socket
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contract.allocation import Allocation
from contract.wire.control import Forget, PodFacts, Who
from contract.wire.line import Line, decode, encode
from contract.words.grammar import Mode
from schedulerd.core.messages import Hello
from schedulerd.core.model import Rules
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.loop import Loop
from schedulerd.identity.clients import AllocationRegistry, Asked
from schedulerd.identity.lookups import Lookups
from schedulerd.policies import FOREVER
from schedulerd.protocol.sessions import Registry, Sessions
from schedulerd.server.server import Listeners, Server
from tests.fakes.wire.client import PATIENCE

OLD, NEW = (f"{one}0000000-0000-0000-0000-000000000000" for one in "12")
SILENCE = PodFacts()
NAME_ALONE = PodFacts(namespace="team", pod="train-0", container="main")


class Stage:
    """A node: folders, a daemon's parts, a clock that may be put forward."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ahead = folder, 0.0
        self.asked: list[Who] = []
        self.forgotten: list[str] = []
        self.start()

    def start(self) -> None:
        """Start it, also again as after the daemon's death: what it held in memory is gone."""
        self.loop = Loop(lambda: time.monotonic() + self.ahead)
        self.node = Node()
        self.folders = AllocationRegistry(
            self.folder, self.node, serve=self.serve, tell=self.ask, pod_of=lambda _pid: self.pod
        )
        self.server = self.folders.server
        self.before_asked: Any = lambda: None
        """Called before a client is looked up."""
        self.pod: str | None = None
        """The pod that every process is seen in."""
        self.folders.start()

    def serve(self, registry: Registry, asked: Asked) -> Server:
        def look_up(connection: Connection, hello: Hello) -> None:
            self.before_asked()
            asked(connection, hello)

        sessions = Sessions(Turns(Rules(), epoch="0000000a"), registry)
        return Server(self.loop, sessions, Listeners(asked=look_up))

    def ask(self, said: Who | Forget) -> Any:
        if isinstance(said, Who):
            self.asked.append(said)
        else:
            self.forgotten.append(said.key)
        return 1

    def allocate(self, key: str, created: float = 1.0, gpus: tuple[str, ...] = ("GPU-1", "GPU-2")) -> None:
        text = json.dumps({"key": key, "uuids": gpus, "device_ids": [f"{one}__0" for one in gpus], "created": created})
        (self.folder / key).mkdir(exist_ok=True)
        (self.folder / key / "allocation.json").write_text(text)
        self.until(lambda: (self.folder / key / "scheduler.sock").exists())

    def until(self, said: Any) -> None:
        end = time.monotonic() + PATIENCE
        self.loop.add_alarm(lambda: self.loop.clock() + 0.01, lambda _now: None)
        while not said():
            assert time.monotonic() < end, "not in time"
            self.loop.turn()
        self.loop._alarms.pop()

    def hello(self, key: str) -> Any:
        """Let a process come through the socket; return what it hears first, and its connection."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.folder / key / "scheduler.sock"))
        client.setblocking(False)
        client.sendall(encode(Line("hello", {"v": "1", "pid": "1", "gpus": "GPU-1"})))
        return client

    def hears(self, client: Any) -> Any:
        heard = b""

        def some() -> Any:
            nonlocal heard
            try:
                heard += client.recv(65536)
            except BlockingIOError:
                return False
            return heard.endswith(b"\n") or not heard

        self.until(some)
        return decode(heard.splitlines()[0]) if heard else None

    def answered(self, count: int, facts: Any) -> None:
        """Answer the newest of so many questions, as the observer does."""
        self.until(lambda: len(self.asked) >= count)
        assert len(self.asked) == count
        self.folders.answered(self.asked[-1].key, facts)
        self.server.carry_out()

    def pass_time(self, seconds: float) -> None:
        self.ahead += seconds
        self.until(lambda: True)
        for _ in range(3):
            self.loop._ring(self.loop.clock())

    def kept(self, key: str) -> Any:
        path = self.folder / key / "pod.json"
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def node(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def said(uid: str = NEW, **more: Any) -> PodFacts:
    return PodFacts(uid=uid, namespace="team", pod="train-0", container="main", **more)


@pytest.mark.parametrize("silence", [pytest.param(SILENCE, id="no owner"), pytest.param(NAME_ALONE, id="no pod")])
def test_what_is_known_without_a_uid_lets_in_and_is_neither_kept_nor_the_last_word(
    node: Stage, silence: PodFacts
) -> None:
    node.allocate("k1")
    client = node.hello("k1")
    node.answered(1, silence)

    assert node.hears(client).words["mode"] == "per-device"
    assert node.kept("k1") is None
    again = node.hello("k1")
    assert node.hears(again).words["mode"] == "per-device"
    node.pass_time(3.1)
    node.answered(2, said(mode=Mode.GANG, memory=4096))
    assert node.hears(client) is None
    late = node.hears(node.hello("k1"))
    assert (late.words["mode"], late.words["memory"]) == ("gang", "4096")
    assert node.kept("k1")["uid"] == NEW


def test_silence_that_an_older_daemon_kept_is_not_believed(node: Stage) -> None:
    node.allocate("k1")
    (node.folder / "k1" / "pod.json").write_text('{"of": "k1.1000", "uid": "", "mode": null}')
    node.hello("k1")
    node.answered(1, said())

    assert node.kept("k1")["uid"] == NEW


def test_an_answer_that_knows_less_takes_nothing_away(node: Stage) -> None:
    node.allocate("k1")
    client = node.hello("k1")
    node.answered(1, said(memory=4096))
    node.hears(client)
    node.folders.answered("k1.1000", SILENCE)

    assert node.hears(node.hello("k1")).words["memory"] == "4096"
    assert node.kept("k1")["memory"] == 4096


def test_a_late_answer_does_not_take_the_place_of_what_is_kept_of_the_next_container(node: Stage) -> None:
    node.allocate("k1", created=1.0)
    first = node.hello("k1")
    node.answered(1, SILENCE)
    assert node.hears(first).verb == "welcome"
    node.allocate("k1", created=2.0)
    node.hello("k1")
    node.answered(2, said(uid=NEW))
    node.folders.answered("k1.1000", said(uid=OLD))

    assert node.kept("k1")["of"] == "k1.2000"
    assert node.node.pods["k1.1000"].uid == OLD


def test_a_pod_made_again_under_its_name_is_asked_for_once_more_before_it_is_refused(node: Stage) -> None:
    node.allocate("k1")
    node.hello("k1")
    node.answered(1, said(uid=OLD, memory=1))
    node.pod = NEW
    client = node.hello("k1")
    node.answered(2, said(uid=NEW, memory=4096))

    assert node.asked[1].uid == NEW
    assert node.hears(client).words["memory"] == "4096"
    assert node.kept("k1")["uid"] == NEW


def test_another_pods_process_is_refused_when_the_cluster_has_confirmed_it_and_then_at_once(node: Stage) -> None:
    node.allocate("k1")
    node.hello("k1")
    node.answered(1, said(uid=OLD))
    node.pod = NEW
    client = node.hello("k1")
    node.answered(2, said(uid=OLD))

    refusal = node.hears(client)
    assert (refusal.words["code"], refusal.words.get("wait")) == ("not-yours", None)
    assert node.hears(node.hello("k1")).words["code"] == "not-yours"
    assert (len(node.asked), node.node.foreign) == (2, 2)


def test_who_is_refused_while_the_cluster_is_silent_is_heard_again_when_it_speaks(node: Stage) -> None:
    node.allocate("k1")
    node.hello("k1")
    node.answered(1, said(uid=OLD))
    node.pod = NEW
    client = node.hello("k1")
    node.answered(2, SILENCE)
    refusal = node.hears(client)
    assert (refusal.words["code"], refusal.words["wait"]) == ("not-yours", "1")
    node.pass_time(3.1)
    node.answered(3, said(uid=NEW))

    assert node.hears(client) is None
    assert node.hears(node.hello("k1")).verb == "welcome"


def test_who_was_let_in_while_nothing_was_known_is_put_out_when_it_is_another_pods(node: Stage) -> None:
    node.allocate("k1")
    node.pod = OLD
    client = node.hello("k1")
    node.answered(1, SILENCE)
    assert node.hears(client).verb == "welcome"
    node.pass_time(3.1)
    node.answered(2, said(uid=NEW))

    assert node.hears(client) is None


def test_a_client_whose_folder_goes_while_it_says_hello_costs_nobody_else_anything(node: Stage) -> None:
    node.allocate("k1")
    client = node.hello("k1")
    node.before_asked = (node.folder / "k1" / "allocation.json").unlink
    node.answered(1, said(memory=1))

    assert node.hears(client).words["memory"] == "1"


def books_of(node: Stage) -> Any:
    one = node.folders
    return [
        one._known,
        one._current,
        one._doubted,
        one._foreign,
        node.node.pods,
        one.lookups._open,
    ]


@pytest.mark.parametrize("facts", [pytest.param(said(), id="known"), pytest.param(SILENCE, id="asked for to the end")])
def test_of_allocations_that_have_gone_nothing_is_kept(node: Stage, facts: Any) -> None:
    for number in range(1, 6):
        node.allocate("k1", created=float(number))
        client = node.hello("k1")
        node.answered(number, facts)
        node.hears(client)
        client.close()
    node.until(lambda: not node.server.connections)
    node.folders._look(node.loop.clock())
    assert sorted(node.forgotten) == [f"k1.{number}000" for number in range(1, 5)]
    (node.folder / "k1").rename(node.folder / ".k1.gone")
    node.until(lambda: len(node.forgotten) == 5)

    assert [len(book) for book in books_of(node)] == [0] * 6


def test_of_who_is_still_here_all_is_kept_when_its_folder_goes(node: Stage) -> None:
    node.allocate("k1")
    client = node.hello("k1")
    node.answered(1, said())
    node.hears(client)
    (node.folder / "k1").rename(node.folder / ".k1.gone")
    node.until(lambda: not node.folders._listening)

    assert node.node.pods["k1.1000"].uid == NEW
    client.close()
    node.until(lambda: not node.server.connections)
    node.pass_time(11)
    assert node.node.pods == {}


def asking() -> Any:
    lines: list[Who] = []
    wanted = {"k.1000"}

    def ask(who: Who) -> int:
        lines.append(who)
        return 1

    return Lookups(ask, wanted.__contains__), lines, wanted


ALLOCATION = Allocation("k", ("GPU-1",), ("GPU-1__0",), 1.0)


def test_a_question_is_put_again_after_pauses_that_grow_to_half_a_minute() -> None:
    lookups, lines, _wanted = asking()
    lookups.put(ALLOCATION, None, 0.0)
    times = [0.0]
    while len(times) < 9:
        times.append(lookups.next_alarm)
        lookups.put_due(times[-1])

    assert len(lines) == 9
    assert [b - a for a, b in pairwise(times)] == [3, 4, 6, 10, 18, 32, 32, 32]


def test_nobody_is_asked_for_who_has_gone_until_somebody_comes() -> None:
    lookups, lines, wanted = asking()
    lookups.put(ALLOCATION, None, 0.0)
    wanted.clear()
    lookups.put_due(lookups.next_alarm)
    assert (len(lines), lookups.next_alarm) == (1, FOREVER)
    lookups.put(ALLOCATION, None, 100.0)

    assert (len(lines), lookups.next_alarm < FOREVER) == (2, True)


def test_an_observer_that_comes_is_asked_at_once_whatever_is_open() -> None:
    lookups, lines, _wanted = asking()
    lookups.put(ALLOCATION, "uid-1", 0.0)
    lookups.put_all(0.5)
    lookups.close("k.1000")
    lookups.put_all(1.0)

    assert [who.uid for who in lines] == ["uid-1", "uid-1"]

"""What a process may say that it still holds, and what the daemon makes of it: the truth, and anything else."""

from typing import Any

import pytest

from schedulerd.core.messages import Grant, Revoked, Yield
from schedulerd.core.model import Container, Rules, Tell
from schedulerd.core.turns import Turns
from schedulerd.protocol.sessions import Sessions, believed
from tests.fakes.containers import Floor

NOBODY: tuple[float, dict[str, Any]] = (-float("inf"), {})


class Believing:
    def find(self, _client: int, hello: Any) -> Any:
        return believed(hello)


class Room:
    """A daemon's core that came after another one, and what its clients hear."""

    def __init__(self, before: Any = None) -> None:
        found = before or {}
        turns = Turns(
            Rules(side_by_side=False),
            epoch="0000000b",
            left_behind=lambda uuid: (7.0, found[uuid]) if uuid in found else NOBODY,
        )
        self.sessions = Sessions(turns, Believing())
        self.now = 0.0
        self.heard: dict[int, list[Any]] = {}

    def say(self, client: int, text: str) -> None:
        if client not in self.sessions.by_client:
            self.sessions.connected(client, self.now)
        self.sessions.received(client, text.encode() + b"\n", self.now)
        self.carry_out()

    def leave(self, client: int) -> None:
        self.sessions.gone(client, self.now)
        self.carry_out()

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (alarm := self.sessions.turns.next_alarm()) <= until:
            self.now = max(self.now, alarm)
            self.sessions.turns.wake(self.now)
            self.carry_out()
        self.now = until

    def carry_out(self) -> None:
        for order in self.sessions.take_orders():
            if isinstance(order, Tell):
                for client in order.to:
                    self.heard.setdefault(client, []).append(order.message)

    def granted(self, client: int) -> Any:
        """Return the GPUs that a client was granted, in the order in which it heard of them."""
        return [message.gpus for message in self.heard.get(client, []) if isinstance(message, Grant)]

    def of(self, client: int, kind: Any) -> Any:
        return [message for message in self.heard.get(client, []) if isinstance(message, kind)]

    def holders(self, gpu: str) -> Any:
        return [turn.container.facts.key for turn in self.sessions.turns.gpu(gpu).holders]


@pytest.mark.parametrize(
    "held",
    [
        "beside=aaaaaaaa.1@GPU-b,aaaaaaaa.2@GPU-a,aaaaaaaa.2@GPU-b",
        "holding=aaaaaaaa.1@GPU-b,aaaaaaaa.2@GPU-a,aaaaaaaa.2@GPU-b",
        "holding=aaaaaaaa.1@GPU-a beside=aaaaaaaa.1@GPU-a,aaaaaaaa.1@GPU-b",
    ],
)
def test_a_gpu_that_is_named_twice_is_one_turns(held: Any) -> None:
    room = Room()
    room.say(1, f"hello v=1 pid=1 container=odd gpus=GPU-a,GPU-b {held}")
    room.leave(1)
    room.say(2, "hello v=1 pid=2 container=good gpus=GPU-a,GPU-b")
    room.say(2, "want gpus=GPU-a,GPU-b")

    assert sorted(room.granted(2)) == [("GPU-a",), ("GPU-b",)]


HELD = {"GPU-a": {"A": (1, 2)}}
A1 = "hello v=1 pid=1 container=A gpus=GPU-a holding=0000000a.3@GPU-a"
A2 = "hello v=1 pid=2 container=A gpus=GPU-a holding=0000000a.3@GPU-a"
"""The two processes of a container that held a GPU when the daemon went away."""


@pytest.mark.parametrize("kind", ["holding", "beside"])
def test_who_did_not_hold_a_gpu_does_not_get_it_by_saying_so(kind: Any) -> None:
    room = Room({"GPU-a": {"B": (2,)}})
    room.say(1, f"hello v=1 pid=1 container=A gpus=GPU-a {kind}=0000000a.3@GPU-a")
    assert room.granted(1) == []
    assert room.of(1, Revoked) == [Revoked("0000000a.3", "overdue")]

    room.say(2, "hello v=1 pid=2 container=B gpus=GPU-a holding=0000000a.7@GPU-a")
    assert room.holders("GPU-a") == ["B"]
    assert room.of(2, Revoked) == []


def test_where_the_holders_names_are_lost_one_that_says_so_is_believed_and_others_wait() -> None:
    room = Room({"GPU-a": {"": (0,)}})
    room.say(1, A1)
    room.say(2, "hello v=1 pid=2 container=B gpus=GPU-a")
    room.say(2, "want gpus=GPU-a")
    room.say(1, "done turn=0000000b.1")
    assert room.granted(1) == [("GPU-a",)]
    assert room.granted(2) == []

    room.pass_time(7.0)
    assert room.granted(2) == [("GPU-a",)]


def test_a_new_process_is_not_taken_for_one_that_held_the_gpu() -> None:
    room = Room(HELD)
    room.say(3, "hello v=1 pid=3 container=C gpus=GPU-a")
    room.say(3, "want gpus=GPU-a")
    for client, pid in ((8, 8), (9, 9)):
        room.say(client, f"hello v=1 pid={pid} container=A gpus=GPU-a")
    assert room.granted(3) == []

    room.say(1, A1)
    room.say(2, A2)
    assert room.holders("GPU-a") == ["A"]
    assert room.of(1, Revoked) + room.of(2, Revoked) == []


def test_nobody_else_gets_the_gpu_before_each_of_the_holders_is_back() -> None:
    """Wait for the second process: the first is done, the second has yet to come and its kernels run."""
    room = Room(HELD)
    room.say(3, "hello v=1 pid=3 container=C gpus=GPU-a")
    room.say(3, "want gpus=GPU-a")
    room.say(1, A1)
    room.say(1, "done turn=0000000b.1 reason=idle")
    assert room.granted(3) == []

    room.say(2, "hello v=1 pid=2 container=A gpus=GPU-a")
    assert room.granted(3) == [("GPU-a",)]


@pytest.mark.parametrize("come", [(8, 1, 2), (1, 1, 2), (1, 2, 3)], ids=["a new one", "one twice", "all of them"])
def test_whom_the_footprint_has_no_room_to_name_is_waited_for_until_its_time_is_over(come: Any) -> None:
    """Name two of three processes: the next one may be new, and the third may have kernels in flight."""
    room = Room({"GPU-a": {"A": (1, 2, 0)}})
    room.say(9, "hello v=1 pid=9 container=C gpus=GPU-a")
    room.say(9, "want gpus=GPU-a")
    for client, pid in enumerate(come, start=10):
        room.say(client, f"hello v=1 pid={pid} container=A gpus=GPU-a")
        room.pass_time(0.5)
    assert room.granted(9) == []

    room.pass_time(7.0)
    assert room.granted(9) == [("GPU-a",)]


def test_a_wish_of_one_process_is_granted_by_another_that_goes_on() -> None:
    room = Room(HELD)
    room.say(2, "hello v=1 pid=2 container=A gpus=GPU-a")
    room.say(2, "want gpus=GPU-a")
    room.say(1, A1)
    room.pass_time(10.0)

    assert room.granted(1) == room.granted(2) == [("GPU-a",)]
    assert room.of(1, Yield) == []


def test_a_gang_goes_on_with_all_its_gpus_or_none() -> None:
    room = Room({"GPU-a": {"A": (1,)}, "GPU-b": {"A": (1,)}})
    room.say(1, "hello v=1 pid=1 container=A mode=gang gpus=GPU-a,GPU-b holding=0000000a.3@GPU-a")

    assert room.granted(1) == []
    assert room.of(1, Revoked) == [Revoked("0000000a.3", "overdue")]


def test_a_container_does_not_wait_for_its_own_missing_process_nor_yield_to_whom_that_shuts_out() -> None:
    room = Room(HELD)
    room.say(3, "hello v=1 pid=3 container=C gpus=GPU-a")
    room.say(3, "want gpus=GPU-a")
    room.say(1, A1)
    room.pass_time(1.0)
    assert room.of(1, Yield) == []

    room.say(1, "done turn=0000000b.1 reason=idle")
    room.say(1, "want gpus=GPU-a")
    assert room.granted(1) == [("GPU-a",), ("GPU-a",)]

    room.pass_time(7.0)
    assert len(room.of(1, Yield)) == 1
    room.say(1, "done turn=0000000b.2")
    assert room.granted(3) == [("GPU-a",)]


@pytest.mark.parametrize("processes", [1, 2], ids=["its only process is back", "one of two is back"])
def test_who_went_on_under_one_daemon_is_waited_for_by_the_next(processes: int) -> None:
    floor = Floor(Rules(side_by_side=False))
    mine = [floor.join(Container(key="a", gpus=("GPU-1",))) for _ in range(processes)]
    floor.want(mine[0], "GPU-1")
    floor.restart()
    floor.come_back(mine[0])
    assert floor.open_on("GPU-1") == ["a"]

    floor.restart()
    floor.want(floor.join(Container(key="b", gpus=("GPU-1",))), "GPU-1")
    for process in mine:
        assert floor.open_on("GPU-1") != ["b"]
        floor.come_back(process)
    assert floor.open_on("GPU-1") == ["a"]

"""What is refused leaves nothing behind: neither in the ledger nor in what a process thinks it was granted."""

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen

import pytest

from tests.hook.peer import Connection, Peer
from tests.hook.support import Machine, compiled
from tests.hook.test_memory import MIB, serving


@contextmanager
def asking(machine: Machine, *words: str) -> Iterator["Popen[str]"]:
    program = machine.start(compiled("asking"), *words)
    try:
        yield program
    finally:
        program.communicate()


def answers(program: "Popen[str]", count: int) -> list[int]:
    assert program.stdout
    return [int(program.stdout.readline()) for _ in range(count)]


@pytest.mark.parametrize("absurd", ["huge", "rows"])
def test_an_absurd_request_leaves_the_ledger_as_it_was(machine: Machine, peer: Peer, absurd: str) -> None:
    with (
        serving(peer, memory=300 * MIB, allocation="plain"),
        asking(machine, "plain=200", absurd, "plain=200") as program,
    ):
        assert answers(program, 3) == [0, 2, 2]
        assert peer.ledger.fields(0)[:3] == (0, 200 * MIB, 200 * MIB)


def refuse(connection: Connection) -> int:
    """The bytes of the next wish to grow, which is refused."""
    asked = connection.hear("reserve")
    connection.say("error", code="no-memory", verb="reserve", message="no room")
    return int(asked.words["bytes"])


def allow(connection: Connection) -> int:
    asked = connection.hear("reserve")
    connection.say("reserved", gpu=asked.words["gpu"], bytes=asked.words["bytes"])
    return int(asked.words["bytes"])


def test_a_refused_wish_to_grow_earns_no_room(machine: Machine, peer: Peer) -> None:
    with asking(machine, "plain=100", "plain=100", "plain=100") as program:
        connection = peer.accept()
        peer.welcome(connection, allocation="plain")
        asked = [refuse(connection) for _ in range(6)]  # a step each, then just what is needed

        assert answers(program, 3) == [2, 2, 2]
        assert asked[1::2] == [100 * MIB] * 3
        assert peer.ledger.fields(0)[:3] == (0, 0, 0)


def test_what_was_freed_and_told_is_asked_for_again(machine: Machine, peer: Peer) -> None:
    """The daemon may have given the room to others once it was told that it is not used."""
    with asking(machine, "plain=100", "free", "plain=100") as program:
        connection = peer.accept()
        peer.welcome(connection, allocation="plain")
        allow(connection)
        assert connection.hear("using").words["unpageable"] == str(100 * MIB)
        assert connection.hear("using").words["unpageable"] == "0"
        assert allow(connection) >= 100 * MIB
        assert answers(program, 3) == [0, 0, 0]

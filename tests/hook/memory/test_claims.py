"""A refused allocation leaves no trace, neither in the ledger nor in what a process believes it was granted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.fakes.wire.daemon import Connection, Peer
from tests.hook.support.machine import Machine, compiled, wait_until
from tests.hook.support.serving import MIB, serving


@contextmanager
def asking(machine: Machine, *words: str) -> Iterator["Popen[str]"]:
    program = machine.start(compiled("asking"), *words)
    try:
        yield program
        program.communicate()
    finally:
        program.kill()
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
    """Refuse the next request to grow, and return its bytes."""
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


def test_freed_memory_that_was_reported_is_requested_again(machine: Machine, peer: Peer) -> None:
    # Once the daemon was told that room is unused, it may have given that room to other containers.
    with asking(machine, "plain=100", "free", "plain=100") as program:
        connection = peer.accept()
        peer.welcome(connection, allocation="plain")
        allow(connection)
        assert connection.hear("using").words["unpageable"] == str(100 * MIB)
        assert connection.hear("using").words["unpageable"] == "0"
        assert allow(connection) >= 100 * MIB
        assert answers(program, 3) == [0, 0, 0]


def test_a_wish_to_grow_is_waited_for_outside_the_gate(machine: Machine, peer: Peer) -> None:
    # A thread that waits for room while neighbours yield must be able to end its own turn.
    with asking(machine, "stream=1", "stream=400") as program:
        connection = peer.accept()
        peer.welcome(connection, allocation="plain")
        allow(connection)
        connection.hear("want")
        turn = peer.grant(connection)
        asked = connection.hear("reserve")
        connection.say("yield", turn=turn, grace_ms=5000)
        connection.hear("done", within=3, turn=turn)
        peer.close_gate()
        connection.say("reserved", gpu=asked.words["gpu"], bytes=asked.words["bytes"])
        connection.hear("want")
        peer.grant(connection)
        assert answers(program, 2) == [0, 0]


def test_a_new_daemon_is_told_what_is_allocated(machine: Machine, peer: Peer) -> None:
    # Otherwise the daemon takes the process for empty, and admits neighbours beyond the card.
    with asking(machine, "plain=100") as program:
        first = peer.accept()
        peer.welcome(first, allocation="plain")
        allow(first)
        assert answers(program, 1) == [0]
        first.close()
        again = peer.accept()
        peer.welcome(again, allocation="plain", epoch="0000000b")

        told = again.hear("using", within=2)
        assert (told.words["pageable"], told.words["unpageable"]) == ("0", str(100 * MIB))
        again.close()


def test_the_end_of_a_context_is_told(machine: Machine, peer: Peer) -> None:
    with asking(machine, "plain=100", "reset") as program:
        connection = peer.accept()
        peer.welcome(connection, allocation="plain")
        allow(connection)
        assert connection.hear("using").words["unpageable"] == str(100 * MIB)
        assert connection.hear("using", within=2).words["unpageable"] == "0"
        assert answers(program, 2) == [0, 0]


@pytest.fixture
def two(tmp_path: Path) -> Machine:
    return Machine(tmp_path, devices="2xT4-16GB")


@pytest.mark.parametrize("way", ["other-stream", "other-pool"])
def test_memory_in_stream_order_is_counted_where_it_is(two: Machine, way: str) -> None:
    peer = Peer(two.sockets, two.uuids())
    with serving(peer, allocation="plain"), asking(two, "stream=30", f"{way}=100") as program:
        assert answers(program, 2) == [0, 0]
        assert [peer.ledger.fields(0, gpu)[1] for gpu in (0, 1)] == [30 * MIB, 100 * MIB]


def test_a_ledger_is_written_in_its_own_order(two: Machine) -> None:
    # Another daemon may list the GPUs in another order.
    peer = Peer(two.sockets, two.uuids())
    with asking(two, "plain=30") as program:
        first = peer.accept()
        peer.welcome(first, allocation="plain")
        allow(first)
        assert answers(program, 1) == [0]
        first.close()
        peer.welcome(peer.accept(), allocation="plain", gpus=",".join(reversed(two.uuids())))
        wait_until(lambda: peer.ledger.total(1) > 0, within=5, what="the ledger's second column")
        assert [peer.ledger.fields(1, gpu)[1] for gpu in (0, 1)] == [0, 30 * MIB]


POOLED = [
    pytest.param(["stream=900", "free-in-stream", "plain=900"], [0, 0, 0], 900, id="a pool that keeps nothing"),
    pytest.param(["keep", "stream=900", "free-in-stream"], [0, 0, 0], 900, id="a pool that keeps all"),
    pytest.param(["keep", "stream=900", "free"], [0, 0, 0], 900, id="freed at once"),
    pytest.param(["keep", "stream=900", "free-in-stream", "stream=900"], [0] * 4, 900, id="served from what it keeps"),
    pytest.param(["keep", "stream=900", "free-in-stream", "trim"], [0] * 4, 0, id="until it is trimmed"),
    pytest.param(["keep", "stream=900", "free-in-stream", "plain=900"], [0] * 4, 900, id="gives way to others"),
    pytest.param(["keep", "stream=900", "free-in-stream", "stream=1100"], [0, 0, 0, 2], 900, id="beyond the cap"),
    pytest.param(["keep", "stream=900", "free-in-stream", "visit"], [0] * 4, 900, id="though a holder goes"),
    pytest.param(["keep", "stream=900", "free-in-stream", "reset"], [0] * 4, 0, id="until its context ends"),
    pytest.param(["spoilt=600", "plain=600"], [0, 0], 600, id="not what a capture took that gave no graph"),
    pytest.param(["captured=600", "plain=600"], [0, 2], 600, id="what a graph takes when it is launched"),
]


@pytest.mark.parametrize(("words", "results", "mib"), POOLED)
def test_memory_that_a_pool_keeps_is_counted(
    machine: Machine, peer: Peer, words: list[str], results: list[int], mib: int
) -> None:
    with serving(peer, memory=1000 * MIB, allocation="plain"), asking(machine, *words) as program:
        assert answers(program, len(words)) == results
        assert peer.ledger.fields(0)[1] == mib * MIB

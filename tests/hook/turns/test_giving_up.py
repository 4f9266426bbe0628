"""An idle holder gives the GPU up within milliseconds while another container waits; otherwise it keeps the GPU."""

import signal
import time

import pytest

from tests.fakes.wire.daemon import Connection, Peer
from tests.hook.support.machine import Machine, compiled


def _holder(machine: Machine, peer: Peer, *program: str) -> tuple[Connection, str]:
    machine.process = machine.start(compiled(program[0]), *program[1:])  # type: ignore[attr-defined]
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    return connection, peer.grant(connection)


@pytest.fixture(autouse=True)
def _ended(machine: Machine):  # type: ignore[no-untyped-def]
    yield
    process = getattr(machine, "process", None)
    if process is not None:
        process.kill()
        process.communicate()


def _first_line(machine: Machine) -> str:
    return str(machine.process.stdout.readline())  # type: ignore[attr-defined]


@pytest.mark.parametrize("keep_ms", [0, 5, 100])
def test_an_idle_holder_gives_up_when_it_was_idle_for_as_long_as_the_daemon_says(
    machine: Machine, peer: Peer, keep_ms: int
) -> None:
    connection, turn = _holder(machine, peer, "pulse", "10000", "2", "step_1ms")
    _first_line(machine)
    time.sleep(0.02)
    began = time.monotonic()
    connection.say("wanted", turn=turn, keep_ms=keep_ms)

    connection.hear("done", turn=turn, reason="idle")
    assert keep_ms / 1000 <= time.monotonic() - began < keep_ms / 1000 + 0.05


def test_the_gpu_is_kept_while_no_other_container_waits(machine: Machine, peer: Peer) -> None:
    connection, _ = _holder(machine, peer, "pulse", "10000", "2", "step_1ms")
    _first_line(machine)

    connection.hears_nothing(within=0.3)


def test_a_grant_that_says_another_container_waits_counts_as_wanted(machine: Machine, peer: Peer) -> None:
    machine.process = machine.start(compiled("pulse"), "10000", "2", "step_1ms")  # type: ignore[attr-defined]
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    turn = peer.grant(connection, waiting=1)

    connection.hear("done", turn=turn, reason="idle", within=0.5)


def test_a_turn_is_not_given_up_before_the_thread_that_waited_for_it_had_the_processor(
    machine: Machine, peer: Peer
) -> None:
    process = machine.start(compiled("delayed"), "300")
    machine.process = process  # type: ignore[attr-defined]
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    process.send_signal(signal.SIGUSR1)
    assert _first_line(machine) == "kept\n"

    peer.grant(connection, waiting=1)

    connection.hears_nothing(within=0.15)
    assert _first_line(machine) == "ended\n"


def test_a_kernel_in_flight_is_not_idleness(machine: Machine, peer: Peer) -> None:
    connection, turn = _holder(machine, peer, "pulse", "10000", "2", "step_300ms")
    _first_line(machine)
    began = time.monotonic()
    connection.say("wanted", turn=turn, keep_ms=5)

    connection.hear("done", turn=turn, reason="idle")
    assert time.monotonic() - began > 0.25


def test_launches_a_moment_apart_are_not_idleness(machine: Machine, peer: Peer) -> None:
    connection, turn = _holder(machine, peer, "pulse", "2", "100000", "step_1us")
    _first_line(machine)
    connection.say("wanted", turn=turn, keep_ms=100)

    connection.hears_nothing(within=0.5)


def test_work_after_giving_up_asks_again_and_the_same_turn_may_be_granted_again(machine: Machine, peer: Peer) -> None:
    connection, turn = _holder(machine, peer, "pulse", "200", "5", "step_1us")
    _first_line(machine)
    connection.say("wanted", turn=turn, keep_ms=5)
    connection.hear("done", turn=turn, reason="idle")
    connection.hear("want")  # the gate's word is still open: others of the container hold the turn
    connection.hears_nothing(within=0.1)
    connection.say("grant", turn=turn, gpus=peer.gpus[0], beside=0, waiting=0)

    assert _first_line(machine)


def test_late_in_a_turn_the_first_pause_ends_it(machine: Machine, peer: Peer) -> None:
    machine.process = machine.start(compiled("pulse"), "10000", "2", "step_1ms")  # type: ignore[attr-defined]
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    began = time.monotonic()
    turn = peer.grant(connection, waiting=1, keep_ms=5000, quantum_ms=500)

    connection.hear("done", turn=turn, reason="idle")
    assert 0.4 <= time.monotonic() - began < 3.0


def test_a_holder_with_pauses_longer_than_coming_back_costs_gives_up_at_once(machine: Machine, peer: Peer) -> None:
    connection, turn = _holder(machine, peer, "pulse", "1300", "20", "step_1ms")
    _first_line(machine)
    connection.say("wanted", turn=turn, keep_ms=1000)
    connection.hear("done", turn=turn, reason="idle")
    peer.close_gate()
    connection.hear("want")  # the pause is over: how long it was is known now
    began = time.monotonic()
    again = peer.grant(connection, waiting=1, keep_ms=1000)

    connection.hear("done", turn=again, reason="idle")
    assert time.monotonic() - began < 0.8


def test_a_process_that_never_worked_gives_up_at_once(machine: Machine, peer: Peer) -> None:
    machine.process = machine.start(compiled("hold"), "1", "1")  # type: ignore[attr-defined]
    connection = peer.accept()
    peer.welcome(connection)
    reserve = connection.hear("reserve")
    connection.say("reserved", gpu=reserve.words["gpu"], bytes=reserve.words["bytes"])
    turn = peer.grant(connection)
    connection.say("wanted", turn=turn, keep_ms=5)
    connection.hear("done", turn=turn, reason="idle")
    connection.say("yield", turn=turn, grace_ms=5000)

"""Stream capture: captured work needs no turn, and nothing that the hook does breaks a capture."""

import threading

import pytest

from tests.fakes.wire.daemon import Peer, Unheard
from tests.hook.support.machine import Machine, compiled


def test_captures_in_global_mode_go_well_while_turns_come_and_go(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("capturing"), "2")
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    yields = 0
    while program.poll() is None:
        try:
            turn = peer.grant(connection)
            threading.Event().wait(0.003)
            connection.say("yield", turn=turn, grace_ms=5000)
            connection.hear("done", turn=turn, passing=("using", "want"))
        except (Unheard, OSError):
            break
        peer.close_gate()
        yields += 1
    out, said = program.communicate(timeout=20)

    assert program.returncode == 0, said
    assert int(out) > 20
    assert yields > 50


def test_captured_work_needs_no_turn(machine: Machine, peer: Peer) -> None:
    # The gate is never opened: the capture ends, and only the graph's launch waits.
    program = machine.start(compiled("capture_only"))
    connection = peer.accept()
    peer.welcome(connection)
    assert program.stdout
    assert program.stdout.readline() == "captured\n"
    connection.hear("want")
    peer.grant(connection)

    assert program.wait(5) == 0
    program.communicate()


@pytest.mark.parametrize("how", ["join", "per-thread"])
def test_work_beside_a_capture_is_waited_for_and_the_capture_ends_well(machine: Machine, peer: Peer, how: str) -> None:
    # Two streams cannot be marked by then: one that joins the capture, and one whose end only the legacy stream shows.
    program = machine.start(compiled("capturing_beside"), how)
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    turn = peer.grant(connection)
    assert program.stdout
    assert program.stdout.readline() == "launched\n"
    connection.say("yield", turn=turn, grace_ms=5000)
    done = connection.hear("done", turn=turn, passing=("using", "want"))
    out, said = program.communicate("\n", timeout=20)

    assert int(done.words["busy_us"]) > 250_000
    assert program.returncode == 0, said
    assert out == "1\n"


def test_a_capture_that_another_thread_fails_to_end_goes_on(machine: Machine, peer: Peer) -> None:
    # The gate is never opened: captured work needs no turn, before and after the failed call.
    bare = machine.run(compiled("capture_failing"), "wrong-thread", hooked=False).well()
    program = machine.start(compiled("capture_failing"), "wrong-thread")
    peer.welcome(peer.accept())
    hooked, _ = program.communicate(timeout=10)

    assert bare.split()[1:5] == ["0", "0", "0", "0"]
    assert hooked == bare


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("what", ["stream", "context"])
def test_a_capture_ends_when_its_stream_or_context_ends(machine: Machine, what: str) -> None:
    assert float(machine.run(compiled("capture_failing"), what).well()) < 2


@pytest.mark.parametrize("way", ["plain", "ptsz"])
def test_an_instantiation_that_uploads_waits_for_its_turn(machine: Machine, peer: Peer, way: str) -> None:
    # A launch without a configuration is also tried: the driver must refuse it, not the hook.
    program = machine.start(compiled("instantiating"), way)
    connection = peer.accept()
    peer.welcome(connection)
    assert program.stdout
    assert [program.stdout.readline() for _ in range(2)] == ["nothing 1\n", "instantiated 0\n"]
    connection.hear("want")
    peer.grant(connection)

    assert program.stdout.readline() == "uploaded 0\n"
    assert program.wait(5) == 0
    program.communicate()

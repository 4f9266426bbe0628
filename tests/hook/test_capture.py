"""Stream capture: what is captured needs no turn, and nothing that the hook does breaks a capture."""

import threading

from tests.hook.peer import Peer, Unheard
from tests.hook.support import Machine, compiled


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


def test_what_is_captured_needs_no_turn(machine: Machine, peer: Peer) -> None:
    """The gate is never opened: the capture ends, only the graph's launch waits."""
    program = machine.start(compiled("capture_only"))
    connection = peer.accept()
    peer.welcome(connection)
    assert program.stdout
    assert program.stdout.readline() == "captured\n"
    connection.hear("want")
    peer.grant(connection)

    assert program.wait(5) == 0
    program.communicate()

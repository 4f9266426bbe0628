"""How long programs and their drains take under a scripted daemon, by what its grants say of waiting neighbours."""

import time

from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine, compiled

FOUR_STREAMS = {"SIMGPU_OVERLAP": "4"}


def seconds_of(machine: Machine, family: str, **words: int) -> float:
    """Return how long a family of programs takes; its grant has these words."""
    machine.settings |= FOUR_STREAMS
    peer = Peer(machine.sockets, machine.uuids())
    program = machine.start(compiled("lone"), family)
    try:
        connection = peer.accept()
        peer.welcome(connection)
        connection.hear("want")
        peer.grant(connection, **words)
        out, said = program.communicate(timeout=30)
    finally:
        program.kill()
        peer.stop()
    assert program.returncode == 0, said
    return float(out)


def drain_of(machine: Machine, **words: int) -> float:
    """Return the seconds from `yield` to `done` of a program that launches 5 ms kernels; its grant has these words."""
    peer = Peer(machine.sockets, machine.uuids())
    program = machine.start(compiled("streams"), "600", "step_5ms")
    try:
        connection = peer.accept()
        peer.welcome(connection)
        connection.hear("want")
        turn = peer.grant(connection, **words)
        assert program.stdout
        program.stdout.readline()
        time.sleep(0.15)  # until it has queued all that it may
        began = time.monotonic()
        connection.say("yield", turn=turn, grace_ms=5000)
        connection.hear("done", turn=turn, passing=("using", "want"))
        return time.monotonic() - began
    finally:
        program.kill()
        program.communicate()
        peer.stop()

"""Work in flight: however much of it there is, a launch is held back for a while and never for good."""

import pytest

from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine, compiled


@pytest.fixture
def peer(machine: Machine) -> Peer:
    machine.devices = "2xT4-16GB"
    return Peer(machine.sockets, machine.uuids())


@pytest.mark.parametrize(
    ("launches", "streams"),
    [
        pytest.param(75, 1, id="more than there are events, in one stream"),
        pytest.param(75, 75, id="more than there are events, in a stream each"),
        pytest.param(600, 1, id="more than the driver would take with an event behind each"),
    ],
)
def test_any_number_of_launches_goes_behind_a_kernel_that_waits_for_its_partner(
    machine: Machine, peer: Peer, launches: int, streams: int
) -> None:
    program = machine.start(compiled("stuck"), str(launches), str(streams))
    connection = peer.accept()
    peer.welcome(connection, flight_ms=2)
    for gpu in range(2):
        connection.hear("want", gpus=peer.gpus[gpu])
        peer.grant(connection, gpu)
    try:
        out, said = program.communicate(timeout=15)
    finally:
        program.kill()
        peer.stop()

    assert program.returncode == 0, said
    assert out == "ended\n"

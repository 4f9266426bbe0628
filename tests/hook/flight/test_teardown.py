"""The end of a context: its streams and allocations are forgotten, even while it is still the current context."""

from pathlib import Path

import pytest

from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine, compiled
from tests.hook.support.serving import MIB, serving


@pytest.mark.parametrize("how", ["reset", "release"])
def test_memory_of_a_primary_context_is_counted_no_longer_when_it_has_ended(
    machine: Machine, peer: Peer, how: str
) -> None:
    with serving(peer, memory=250 * MIB):
        ended = machine.run(compiled("resetting"), how, "8", "100")

    assert ended.well() == "ended\n"
    assert peer.ledger.total() == 0


def test_the_end_of_a_context_with_many_allocations_takes_no_longer_the_more_there_are(tmp_path: Path) -> None:
    # The time for each allocation is measured, with allocations of another context between them.
    machine = Machine(tmp_path, devices="2xT4-16GB")
    with serving(Peer(machine.sockets, machine.uuids())):
        ended = machine.run(compiled("many"), "20000")

    assert float(ended.well()) < 1

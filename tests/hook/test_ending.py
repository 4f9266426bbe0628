"""What belonged to a context that has ended is forgotten, though the context be current still."""

import pytest

from tests.hook.peer import Peer
from tests.hook.support import Machine, compiled
from tests.hook.test_memory import MIB, serving


@pytest.mark.parametrize("how", ["reset", "release"])
def test_memory_of_a_primary_context_is_counted_no_longer_when_it_has_ended(
    machine: Machine, peer: Peer, how: str
) -> None:
    with serving(peer, memory=250 * MIB):
        ended = machine.run(compiled("resetting"), how, "8", "100")

    assert ended.well() == "ended\n"
    assert peer.ledger.total() == 0

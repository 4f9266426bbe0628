"""Connections without end from one container: the others have room all the same."""

from typing import Any

from contract.wire.shared_memory import LEDGER_SLOTS
from schedulerd.core.messages import Complaint
from schedulerd.core.model import Hangup, Rules, Tell
from schedulerd.core.turns import Turns
from schedulerd.protocol.sessions import Sessions, believed

MOST = 2 * LEDGER_SLOTS


class Believing:
    def find(self, _client: int, hello: Any) -> Any:
        return believed(hello)


def refused(sessions: Sessions) -> dict[int, str]:
    """Return which clients are hung up on, and why."""
    orders = sessions.take_orders()
    told = [(one.to, one.message) for one in orders if isinstance(one, Tell)]
    codes = {client: said.code for to, said in told if isinstance(said, Complaint) for client in to}
    return {one.client: codes[one.client] for one in orders if type(one) is Hangup}


def test_one_folder_has_so_many_connections_and_the_next_folder_as_many() -> None:
    sessions = Sessions(Turns(Rules(), epoch="0000000a"), Believing())
    for client in range(MOST):
        sessions.connected(client, 0.0, folder="greedy")
    assert refused(sessions) == {}

    sessions.connected(MOST, 0.0, folder="greedy")
    sessions.connected(MOST + 1, 0.0, folder="modest")
    assert refused(sessions) == {MOST: "too-many"}


def test_those_that_have_gone_count_no_more() -> None:
    sessions = Sessions(Turns(Rules(), epoch="0000000a"), Believing())
    for client in range(3 * MOST):
        sessions.connected(client, 0.0, folder="busy")
        sessions.gone(client, 0.0)

    assert refused(sessions) == {}

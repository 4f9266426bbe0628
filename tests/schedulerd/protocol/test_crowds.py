"""Connections without end from one container: the others have room all the same."""

from contract.shared_memory import LEDGER_SLOTS
from schedulerd.core.messages import Complaint
from schedulerd.core.model import Hangup, Rules, Tell
from schedulerd.core.turns import Turns
from schedulerd.protocol.sessions import Desk, believed

MOST = 2 * LEDGER_SLOTS


class Believing:
    def find(self, _client, hello):
        return believed(hello)


def refused(desk):
    """Who is hung up on, and why."""
    orders = desk.take_orders()
    codes = {client: one.message.code for one in orders if type(one) is Tell for client in one.to if is_complaint(one)}
    return {one.client: codes[one.client] for one in orders if type(one) is Hangup}


def is_complaint(order):
    return isinstance(order.message, Complaint)


def test_one_folder_has_so_many_connections_and_the_next_folder_as_many():
    desk = Desk(Turns(Rules(), epoch="0000000a"), Believing())
    for client in range(MOST):
        desk.connected(client, 0.0, folder="greedy")
    assert refused(desk) == {}

    desk.connected(MOST, 0.0, folder="greedy")
    desk.connected(MOST + 1, 0.0, folder="modest")
    assert refused(desk) == {MOST: "too-many"}


def test_those_that_have_gone_count_no_more():
    desk = Desk(Turns(Rules(), epoch="0000000a"), Believing())
    for client in range(3 * MOST):
        desk.connected(client, 0.0, folder="busy")
        desk.gone(client, 0.0)

    assert refused(desk) == {}

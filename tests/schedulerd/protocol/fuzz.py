"""Fuzzed lines for the core, beside an honest client that must be served all the time."""

import random
from typing import Any

from contract.wire.line import Line, encode
from schedulerd.core.model import Admit, Hangup, Rules, SetGate, Tell
from schedulerd.core.turns import Turns
from schedulerd.protocol import codec
from schedulerd.protocol.sessions import Sessions, believed

VERBS = ["hello", "want", "done", "using", "reserve", "dance", "welcome", ""]
KEYS = [
    "v",
    "pid",
    "gpus",
    "gpu",
    "turn",
    "bytes",
    "pageable",
    "unpageable",
    "reason",
    "holding",
    "beside",
    "mode",
    "=",
    "",
]
VALUES = [
    "1",
    "GPU-1",
    "GPU-1,GPU-2",
    "GPU-1,GPU-1",
    "0000000a.1",
    "0000000a.99",
    "-1",
    "9" * 30,
    "%",
    "%zz",
    "%00",
    "yield",
]


class Believing:
    """Everybody is who they say."""

    def find(self, _client: int, hello: Any) -> Any:
        return believed(hello)


def random_line(draw: random.Random) -> bytes:
    """Return a line that is nearly right, mutilated, or noise."""
    kind = draw.random()
    if kind < 0.1:
        return draw.randbytes(draw.randint(0, 200))
    words = " ".join(f"{draw.choice(KEYS)}={draw.choice(VALUES)}" for _ in range(draw.randint(0, 4)))
    line = f"{draw.choice(VERBS)} {words}".encode()
    if kind < 0.3:
        place = draw.randrange(len(line) + 1)
        line = line[:place] + draw.randbytes(draw.randint(1, 3)) + line[place:]
    return line + b"\n"


def fuzz(lines: int, seed: int = 1) -> str:
    """Send anything: it is answered with at most a sentence, and an honest client beside it is served."""
    draw = random.Random(seed)
    sessions = Sessions(Turns(Rules(side_by_side=False), epoch="0000000a"), Believing())
    gates: dict[tuple[str, str], int] = {}
    now, next_client, answers, hangups = 0.0, 2, 0, 0
    sessions.connected(1, now)
    sessions.received(1, b"hello v=1 pid=1 gpus=GPU-1 container=honest\n", now)
    client = 0
    for number in range(lines):
        if client not in sessions.by_client:
            client, next_client = next_client, next_client + 1
            sessions.connected(client, now)
            if draw.random() < 0.8:
                sessions.received(client, b"hello v=1 pid=2 gpus=GPU-1,GPU-2 container=fuzz mode=per-device\n", now)
        sessions.received(client, random_line(draw), now)
        now += 0.001
        sessions.turns.wake(now)
        for order in sessions.take_orders():
            if isinstance(order, Tell):
                answers += len(order.to)
                codec.write(order.message)
            elif isinstance(order, SetGate):
                gates[order.container, order.gpu] = order.word
            elif isinstance(order, Hangup):
                hangups += 1
                sessions.gone(order.client, now)
            elif not isinstance(order, Admit):
                continue
        if number % 1000 == 0:
            _serve_honest(sessions, gates, now)
    return f"{lines} lines: {answers} answers, {hangups} hung up on, an honest client served {lines // 1000} times"


def _serve_honest(sessions: Sessions, gates: dict[tuple[str, str], int], now: float) -> None:
    sessions.received(1, encode(Line("want", {"gpus": "GPU-1"})), now)
    sessions.turns.wake(now + 0.2)
    sessions.turns.wake(now + 20)
    for order in sessions.take_orders():
        if isinstance(order, SetGate):
            gates[order.container, order.gpu] = order.word
    if gates.get(("honest", "GPU-1"), 0) == 0:
        raise AssertionError("the honest client was not served")
    turn = sessions.turns.containers["honest"].turns["GPU-1"].name
    sessions.received(1, encode(Line("done", {"turn": turn})), now + 20)

"""What the benches and some tests measure: drains, hand-overs, overheads, with the daemon's end of the wire or the daemon.

Figures are of simgpu at speed 1; may import the tests' own parts only.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hook.peer import Connection, Peer
from tests.hook.support import Machine, compiled
from tests.simgpu.record import Record, busy_share


@dataclass(frozen=True, slots=True)
class Drain:
    """Yields of a busy process: milliseconds from `yield` to `done`, and the GPU's busy share of the turns."""

    milliseconds: list[float]
    busy: float

    def p(self, percent: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextmanager
def scripted(devices: str = "1xT4-16GB") -> Iterator[tuple[Machine, Peer]]:
    """A machine with a scripted daemon, for the length of a block."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), devices=devices)
        peer = Peer(machine.sockets, machine.uuids())
        try:
            yield machine, peer
        finally:
            peer.stop()


def measure_drain(names: list[str], *, yields: int, turn: float) -> Drain:
    """Turns of so many seconds; the first is for learning and is not counted."""
    with scripted() as (machine, peer):
        process = machine.start(compiled("drain"), "600", *names)
        connection = peer.accept()
        peer.welcome(connection)
        connection.hear("want")
        taken, busy = [], []
        for number in range(yields + 1):
            began, took = _turn(peer, connection, turn if number else max(turn, 1.0))
            if number:
                taken.append(took * 1000)
                busy.append(busy_share(Record(machine.gpus).intervals(0), began + 0.002, began + turn))
        process.kill()
        process.communicate()
        return Drain(taken, statistics.mean(busy))


def _turn(peer: Peer, connection: Connection, seconds: float) -> tuple[float, float]:
    began = time.monotonic()
    turn = peer.grant(connection)
    time.sleep(seconds)
    asked = time.monotonic()
    connection.say("yield", turn=turn, grace_ms=5000)
    connection.hear("done", turn=turn, passing=("using", "want"))
    took = time.monotonic() - asked
    peer.close_gate()
    connection.hear("want", passing=("using",))
    return began, took

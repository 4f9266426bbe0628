"""No launch without a turn: the drill's parts, which the tests run at a reduced count.

Two processes hammer one GPU, one of them in three streams at once.  A daemon gives and takes turns as fast as they can
be taken, and the driver's calls are stretched at random.  The GPU's own record of execution is compared with the
daemon's log of turns.
"""

import bisect
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.gpu_record import Interval, Record, Turn
from tests.fakes.wire.daemon import Connection, Peer
from tests.hook.support.machine import HOOK, Machine, compiled

STRETCH = "30us"
LABELS = ("alice", "bob")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a drill saw."""

    yields: int
    kernels: int
    outside: int
    """Intervals of execution with a part outside the turns of their process."""

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(self.yields + other.yields, self.kernels + other.kernels, self.outside + other.outside)

    def line(self) -> str:
        return f"{self.yields} yields, {self.kernels} kernels executed, {self.outside} outside a turn"


def count_outside(intervals: list[Interval], turns: list[Turn]) -> int:
    """Count intervals that are not wholly within one turn of their label.

    The turns come in order of time and never overlap.
    """
    starts = [turn.start for turn in turns]
    outside = 0
    for one in intervals:
        place = bisect.bisect_right(starts, one.start) - 1
        turn = turns[place] if place >= 0 else None
        outside += turn is None or turn.label != one.owner.label or one.end > turn.end
    return outside


def _one_turn(peer: Peer, connection: Connection, label: str, number: random.Random) -> Turn:
    began = time.monotonic()
    turn = peer.grant(connection)
    if number.random() < 0.7:
        time.sleep(number.random() * 3e-4)
    connection.say("yield", turn=turn, grace_ms=5000)
    connection.hear("done", turn=turn, passing=("using", "want"))
    peer.close_gate()
    return Turn(label, began, time.monotonic())


def hammer(folder: Path, yields: int, *, seed: int, hook: Path = HOOK) -> Outcome:
    """Run one round: two hammering processes and so many yields; return the verdict of the record."""
    machine = Machine(folder, hook=hook)
    machine.settings = {
        "SIMGPU_RECORD_ENTRIES": "1000000",
        "SIMGPU_OVERLAP": "4",
        "SIMGPU_STRETCH_BEFORE": STRETCH,
        "SIMGPU_STRETCH_AFTER": STRETCH,
    }
    number = random.Random(seed)
    uuids = machine.uuids()
    processes, connections, peers = [], {}, {}
    for label in LABELS:
        (folder / label).mkdir()
        peers[label] = Peer(folder / label, uuids)
        threads, kind = ("3", "stream") if label == "alice" else ("1", "")
        command = [str(compiled("hammer")), threads, "step_1us", *([kind] if kind else [])]
        processes.append(machine.start(*command, SIMGPU_LABEL=label, NVSHARE_SOCKETS=str(folder / label)))
        connections[label] = peers[label].accept()
        peers[label].welcome(connections[label])
        connections[label].hear("want")
    turns = []
    for index in range(yields):
        label = LABELS[index % 2]
        turns.append(_one_turn(peers[label], connections[label], label, number))
    return _judge(machine, processes, peers, connections, turns)


def _judge(machine, processes, peers, connections, turns) -> Outcome:  # type: ignore[no-untyped-def]
    for label in LABELS:  # one at a time: each may finish its last launches in a turn of its own
        index = LABELS.index(label)
        began = time.monotonic()
        peers[label].grant(connections[label])
        processes[index].stdin.close()
        processes[index].stdin = None
        _, said = processes[index].communicate(timeout=30)
        assert processes[index].returncode == 0, said
        turns.append(Turn(label, began, time.monotonic()))
        peers[label].stop()
    record = Record(machine.gpus)
    assert not record.lost(), "the record has lost entries: fewer yields a round"
    intervals = record.intervals(0)
    return Outcome(len(turns) - 2, sum(one.kernels for one in intervals), count_outside(intervals, turns))


def rounds(yields: int, *, a_round: int = 4_000, hook: Path = HOOK) -> Outcome:
    """Run so many yields in rounds that the record can hold: a million entries, 60 to 150 kernels for each yield."""
    total = Outcome(0, 0, 0)
    while total.yields < yields:
        with tempfile.TemporaryDirectory() as folder:
            count = min(a_round, yields - total.yields)
            total += hammer(Path(folder), count, seed=total.yields, hook=hook)
    return total

"""Several GPUs, several processes: collectives in a gang that shares its GPUs, and independent work a GPU."""

import statistics
import subprocess
import time

import pytest

from tests.hook import measure
from tests.hook.peer import Connection, Peer
from tests.hook.support import compiled

pytestmark = pytest.mark.slow


def test_a_job_of_two_processes_with_collectives_gets_its_share_though_it_yields() -> None:
    """Without the processes' ending a turn together each yield would stand until the grace has passed."""
    sharing = measure.measure_parallel(4, quantum="200ms")

    assert sharing.gang > 0.3
    assert sharing.busy > 0.75


def test_two_threads_on_two_gpus_share_each_with_another() -> None:
    sharing = measure.measure_per_device(4, quantum="200ms")

    assert sharing.gang > 0.4
    assert sharing.singles > 0.4
    assert sharing.busy > 0.9


def test_a_gang_of_two_gpus_in_one_process_has_both_or_none() -> None:
    sharing = measure.measure_per_device(4, quantum="200ms", mode="gang")

    assert sharing.gang > 0.3
    assert sharing.busy > 0.85


def test_turns_on_two_gpus_that_end_at_once_do_not_hold_each_other_up() -> None:
    """On the second GPU something runs for a while: that must not hide that all have ended on the first."""
    with measure.scripted("2xT4-16GB") as (machine, peer):
        programs = [machine.start(compiled("actor"), "step_30ms") for _ in range(2)]
        connections = []
        for program in programs:
            _tell(program, "hello 0")
            connections.append(peer.accept())
            peer.welcome(connections[-1])
        taken = [_both_end(peer, connections, programs[0]) for _ in range(7)]
        for program in programs:
            program.kill()
            program.communicate()

    assert statistics.median(taken) < 0.02


def _tell(program: "subprocess.Popen[str]", line: str) -> None:
    assert program.stdin
    program.stdin.write(f"{line}\n")
    program.stdin.flush()


def _both_end(peer: Peer, connections: list[Connection], busy: "subprocess.Popen[str]") -> float:
    """Seconds from the yields of both turns until both processes have ended the first GPU's."""
    turns = []
    for gpu in range(2):
        turns.append(peer.grant(connections[0], gpu))
        connections[1].say("grant", turn=turns[gpu], gpus=peer.gpus[gpu], beside=0, waiting=0)
    _tell(busy, "launch 1")
    assert busy.stdout
    while busy.stdout.readline() != "ran 1\n":
        pass
    began = time.monotonic()
    for turn in turns:
        for connection in connections:
            connection.say("yield", turn=turn, grace_ms=5000)
    for connection in connections:
        connection.hear("done", turn=turns[0])
    taken = time.monotonic() - began
    for gpu, connection in enumerate(connections):
        connection.hear("done", turn=turns[1])
        peer.close_gate(gpu)
    return taken

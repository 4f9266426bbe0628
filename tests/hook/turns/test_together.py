"""Several GPUs and several processes: collectives in a gang that shares its GPUs, and independent work on each GPU."""

import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.wire.daemon import Connection, Peer
from tests.hook.support import measure
from tests.hook.support.machine import Machine, compiled

pytestmark = pytest.mark.slow


def test_a_job_of_two_processes_with_collectives_gets_its_share_though_it_yields() -> None:
    # The processes must end a turn together; otherwise each yield would wait until the grace has passed.
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
    # Work that runs for a while on the second GPU must not hide that all work on the first has ended.
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


@pytest.mark.parametrize("how", ["wait", "copy"])
def test_a_collective_is_completed_when_a_yield_comes_between_its_two_launches(how: str) -> None:
    # With a copy behind it, a thread waits inside the driver: none of its launches can be marked, or seen to end.
    commands = [(compiled("meeting"), str(gpu), how) for gpu in range(2)]
    with measure.scripted("2xT4-16GB") as (machine, peer), _started(machine, commands) as ranks:
        connections = [peer.accept() for _ in ranks]
        for gpu in range(2):
            peer.gate.set(gpu, 1)
        for connection in connections:
            peer.welcome(connection, mode="gang")
            connection.say("grant", turn="0000000a.1", gpus=",".join(peer.gpus), beside=0, waiting=0)
            asked = connection.hear("reserve")
            connection.say("reserved", gpu=asked.words["gpu"], bytes=asked.words["bytes"])
        assert [_said(rank) for rank in ranks] == ["ready", "ready"]
        for rank in ranks:
            _tell(rank, "meet")
        assert [_said(rank) for rank in ranks] == ["ran", "ran"]

        _tell(ranks[0], "meet")
        time.sleep(0.1)  # until it waits in the driver
        for connection in connections:
            connection.say("yield", turn="0000000a.1", grace_ms=5000)
        time.sleep(0.03)  # until both have shut their gates
        _tell(ranks[1], "meet")
        for connection in connections:
            connection.hear("done", within=3, turn="0000000a.1")
        for gpu in range(2):
            peer.gate.set(gpu, 2)  # the copy of the one that came late waited for it
        assert [_said(rank) for rank in ranks] == ["ran", "ran"]


@contextmanager
def _started(machine: Machine, commands: Sequence[tuple[Path | str, ...]]) -> Iterator[list["subprocess.Popen[str]"]]:
    programs = [machine.start(*command) for command in commands]
    try:
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.communicate()


def _said(program: "subprocess.Popen[str]") -> str:
    assert program.stdout
    return program.stdout.readline().strip()


def _tell(program: "subprocess.Popen[str]", line: str) -> None:
    assert program.stdin
    program.stdin.write(f"{line}\n")
    program.stdin.flush()


def _both_end(peer: Peer, connections: list[Connection], busy: "subprocess.Popen[str]") -> float:
    """Return seconds from the yields of both turns until both processes have ended the first GPU's turn."""
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

"""When no turn can come, the user hears it: the refused get errors, and who finds no scheduler waits and says so."""

import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes.wire.allocations import known_containers
from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import HOOK, Machine, compiled
from tests.hook.support.serving import GIB, serving

pytestmark = pytest.mark.slow

REFUSED = " ".join(["800"] * 7)
"""CUDA_ERROR_NOT_PERMITTED, for each call of the program."""


def faster_clock(folder: Path) -> str:
    """Build a library in which a second of the monotonic clock takes 50 ms; return the LD_PRELOAD with it."""
    source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <time.h>
    #include <unistd.h>
    #include <sys/syscall.h>
    int clock_gettime(clockid_t clock, struct timespec *now) {
        int result = (int)syscall(SYS_clock_gettime, clock, now);
        long long ns = clock == CLOCK_MONOTONIC ? 20 * (now->tv_sec * 1000000000LL + now->tv_nsec) : 0;
        if (ns)
            *now = (struct timespec){ns / 1000000000, ns % 1000000000};
        return result;
    }
    """
    library = folder / "libfaster.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    return f"{library} {HOOK}"


@pytest.mark.parametrize("log", ["quiet", "summary", "debug"])
def test_a_process_that_sees_a_gpu_of_others_is_refused_with_a_sentence_and_its_calls_fail(
    machine: Machine, log: str
) -> None:
    machine.devices = "2xT4-16GB"
    first, second = machine.uuids()
    with known_containers(machine.folder) as containers:
        mine = containers.add("k", first, weight=100)
        began = time.monotonic()
        ended = machine.run(compiled("refused"), NVSHARE_SOCKETS=str(mine), NVSHARE_LOG=log)

    assert ended.well().splitlines() == [REFUSED]
    assert time.monotonic() - began < 5, "one second for the refusal; the rest is the programs' start"
    assert f"refused this process (not-yours): {second} was not given to this container. It has {first}" in ended.said
    assert "CUDA_VISIBLE_DEVICES" in ended.said
    assert ended.said.count("refused this process") == 1


@pytest.mark.parametrize(
    ("code", "remedy"), [("version", "Upgrade nvshare-guard"), ("too-many", "fewer processes"), ("odd", "log has more")]
)
def test_a_refusal_tells_its_remedy(machine: Machine, peer: Peer, code: str, remedy: str) -> None:
    program = machine.start(compiled("refused"))
    connection = peer.accept()
    connection.hear("hello")
    connection.say("error", code=code, message="no")
    out, said = program.communicate(timeout=5)

    assert out.splitlines() == [REFUSED]
    assert f"nvshare: the scheduler refused this process ({code}): no. " in said
    assert remedy in said


def test_a_hello_that_came_too_late_is_said_again(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("refused"))
    connection = peer.accept()
    connection.say("error", code="no-hello", message="no hello came within 10 s")
    connection.close()
    with serving(peer):
        out, said = program.communicate(timeout=5)

    assert out.split()[0] == "0"
    assert said == ""


def test_a_refused_process_asks_again_and_is_let_in_when_the_answer_has_changed(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("refused"))
    assert program.stdin
    assert program.stdout
    connection = peer.accept()
    connection.hear("hello")
    connection.say("error", code="not-yours", verb="hello", message="no")
    began = time.monotonic()
    assert program.stdout.readline().strip() == REFUSED
    with serving(peer) as connections:  # the next hello is welcomed
        while not connections:
            program.stdin.write("\n")
            program.stdin.flush()
            answer = program.stdout.readline()
        again = time.monotonic() - began
        while answer.strip() == REFUSED:
            program.stdin.write("\n")
            program.stdin.flush()
            answer = program.stdout.readline()
        program.communicate()

    assert answer.split()[0] == "0"
    assert 0.8 < again < 3


def test_a_refusal_that_may_change_is_said_and_waited_for(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("refused"), NVSHARE_LOG="quiet")
    connection = peer.accept()
    connection.hear("hello")
    connection.say("error", code="not-yours", verb="hello", wait=1, message="the cluster has not confirmed it")
    assert program.stderr
    assert "refused this process (not-yours): the cluster has not confirmed it" in program.stderr.readline()
    connection.hears_nothing(within=0.2)
    connection.close()  # as the daemon does when the cluster has answered
    with serving(peer):
        out, _ = program.communicate(timeout=5)

    assert out.split()[0] == "0"


def test_a_process_that_was_welcomed_waits_out_a_refusal_by_the_next_daemon(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("pulse"), "5", "60", "step_1us")
    connection = peer.accept()
    peer.welcome(connection, announce_ms=100)
    connection.hear("want")
    peer.grant(connection)
    assert program.stdout
    program.stdout.readline()
    peer.close_gate()
    connection.close()
    again = peer.accept()
    again.hear("hello")
    again.say("error", code="too-many", message="no")
    with serving(peer):
        out, said = program.communicate(timeout=10)

    assert program.returncode == 0, said
    assert len(out.split()) == 59
    assert "refused this process (too-many): no." in said


@pytest.mark.parametrize("how", ["never-there", "says-nothing", "gone"])
def test_who_waits_without_a_scheduler_hears_it_after_ten_seconds_and_each_minute(machine: Machine, how: str) -> None:
    preload = faster_clock(machine.folder)
    peer = Peer(machine.sockets, machine.uuids()) if how != "never-there" else None
    began = time.monotonic()
    program = machine.start(compiled("pulse"), "1", "100000", "step_1us", LD_PRELOAD=preload)
    try:
        if peer is not None:
            connection = peer.accept()
            if how == "gone":
                peer.welcome(connection)
                connection.hear("want")
                connection.close()
                peer.stop()
        assert program.stderr
        said = [program.stderr.readline() for _ in range(2)]
        took = time.monotonic() - began
    finally:
        program.kill()
        program.communicate()
        if peer is not None:
            peer.stop()

    why = {"never-there": "No such file or directory", "gone": "No such file", "says-nothing": "it is connected"}[how]
    assert all(f"no scheduler answers in {machine.sockets} ({why}" in line for line in said)
    after = [int(line.split("has waited for ")[1].split(" s and goes on waiting")[0]) for line in said]
    assert 10 <= after[0] < 40, "the clock jumps by what the listener sleeps"
    assert 70 <= after[1] < 100
    assert 3.2 < took < 8, "ten seconds and a minute of a clock that runs twenty times too fast"


def test_who_waits_for_a_neighbour_hears_nothing_of_it(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("pulse"), "1", "1", "step_1us", LD_PRELOAD=faster_clock(machine.folder))
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    time.sleep(1)  # twenty seconds
    peer.grant(connection)
    _, said = program.communicate(timeout=5)

    assert said == ""


def test_a_daemon_that_reads_nothing_is_connected_to_anew_and_told_all(machine: Machine, peer: Peer) -> None:
    # Each turn has two lines as its answer, and nobody reads them.
    program = machine.start(compiled("pulse"), "0", "1000000", "step_1us", NVSHARE_LOG="quiet")
    try:
        first = peer.accept()
        peer.welcome(first)
        with suppress(BrokenPipeError):
            while not peer.is_asked(within=0):
                turn = peer.grant(first)
                time.sleep(0.0005)
                first.say("yield", turn=turn, grace_ms=5000)
                time.sleep(0.0005)
                peer.close_gate()
        second = peer.accept()
        hello = second.hear("hello")
    finally:
        program.kill()
        _, said = program.communicate()

    assert hello.words["gpus"] == machine.uuids()[0]
    assert "the scheduler has not read 6" in said
    assert said.count("has not read") == 1


def test_the_hook_says_the_sizes_of_its_cards(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("hold"), "64", "1")
    hello = peer.accept().hear("hello")
    program.kill()
    program.communicate()

    assert hello.words["card_bytes"] == str(16 * GIB)

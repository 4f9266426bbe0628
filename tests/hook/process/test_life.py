"""Fork, exec, exit, threads, signals, a driver loaded twice, no daemon, a new one: the hook ends no application."""

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

import pytest

from tests.fakes.wire.client import Daemon, running_daemon
from tests.fakes.wire.daemon import Connection, Peer, Unheard
from tests.hook.support.machine import Machine, compiled

pytestmark = pytest.mark.slow


def _serve_first(peer: Peer) -> Connection:
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")
    peer.grant(connection)
    return connection


@pytest.mark.parametrize("how", ["idle", "exec"])
def test_the_connection_ends_with_the_process_though_its_child_lives_on(machine: Machine, peer: Peer, how: str) -> None:
    program = machine.start(compiled("forking"), how)
    connection = _serve_first(peer)
    assert program.stdout
    child = int(program.stdout.readline())
    program.kill()
    began = time.monotonic()

    assert connection.socket.recv(1) == b""
    assert time.monotonic() - began < 1
    os.kill(child, signal.SIGKILL)
    program.communicate()


@pytest.mark.usefixtures("daemon")
def test_a_child_forked_before_any_use_is_a_client_of_its_own(machine: Machine) -> None:
    machine.run(compiled("forking"), "first").well()


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("how", ["before", "failed", "forked"])
def test_a_call_that_the_driver_refuses_is_refused_and_not_waited_for(machine: Machine, how: str) -> None:
    # Without a usable driver no hello can be sent, so there is no daemon to wait for.
    seen = {} if how != "failed" else {"CUDA_VISIBLE_DEVICES": ""}
    bare = machine.run(compiled("too_early"), how, hooked=False, **seen).well()

    assert bare.split()
    assert machine.run(compiled("too_early"), how, hooked=True, **seen).well() == bare


@pytest.mark.parametrize("how", ["return", "exit", "_exit", "thread"])
def test_a_process_may_end_while_a_thread_stands_at_the_gate(machine: Machine, peer: Peer, how: str) -> None:
    program = machine.start(compiled("leaving"), how)
    connection = peer.accept()
    peer.welcome(connection)
    connection.hear("want")

    assert program.wait(5) == 0
    program.communicate()


@pytest.mark.parametrize("said", ["yield", "wanted"])
def test_the_driver_is_asked_nothing_once_the_process_exits(machine: Machine, peer: Peer, said: str) -> None:
    # Each time the listener would ask the driver again and again whether the kernel has ended.  It would be killed for
    # that, or be told by a driver that has ended that the kernel has, too.
    program = machine.start(compiled("at_exit"), "5", SIMGPU_MISUSE="abort")
    assert program.stdin
    assert program.stdout
    connection = _serve_first(peer)
    assert program.stdout.readline() == "in flight\n"
    connection.say(said, turn=f"{peer.epoch}.1", grace_ms=5000, keep_ms=5)
    program.stdin.write("\n")
    program.stdin.flush()
    while program.poll() is None:
        with suppress(OSError):
            connection.say("reserved", gpu=peer.gpus[0], bytes=1)  # wakes the listener
        time.sleep(0.01)
    program.communicate()

    assert program.returncode == 0
    with pytest.raises(Unheard, match="hung up"):  # and said nothing before
        connection.hears_nothing(within=1)


def test_a_daemon_that_comes_while_the_process_exits_gets_a_hello_all_the_same(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("at_exit"), "1000", SIMGPU_MISUSE="abort")
    assert program.stdin
    connection = _serve_first(peer)
    assert program.stdout
    program.stdout.readline()
    peer.stop()
    connection.close()
    program.stdin.write("\n")
    program.stdin.flush()
    time.sleep(0.2)
    late = Peer(machine.sockets, machine.uuids())
    hello = late.accept().hear("hello")
    program.kill()
    program.communicate()
    late.stop()

    assert hello.words["gpus"] == machine.uuids()[0]


def test_a_launch_in_an_exit_handler_still_gets_its_turn(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("at_exit"), "asks", SIMGPU_MISUSE="abort")
    assert program.stdin
    assert program.stdout
    connection = _serve_first(peer)
    assert program.stdout.readline() == "in flight\n"
    connection.say("yield", turn=f"{peer.epoch}.1", grace_ms=5000)
    peer.close_gate()
    program.stdin.write("\n")
    program.stdin.flush()
    connection.hear("want", passing=("using", "done"))
    peer.gate.set(0, 2)  # opens before any line is sent, and the process may be gone then

    assert program.communicate(timeout=5)[0] == "launched\n"
    assert program.returncode == 0


@pytest.mark.parametrize("how", ["waiting", "pending"])
def test_the_program_goes_on_after_a_thread_was_cancelled(machine: Machine, how: str) -> None:
    program = machine.start(compiled("cancelling"), how)
    assert program.stdout
    if how == "waiting":
        assert program.stdout.readline() == "cancelled\n"
    peer = Peer(machine.sockets, machine.uuids())
    _serve_first(peer)
    out, said = program.communicate(timeout=10)
    peer.stop()

    assert program.returncode == 0, said
    assert out.endswith("ended\n")


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("log", ["quiet", "summary"])
def test_a_signal_s_handler_may_end_the_process_wherever_it_interrupts_us(machine: Machine, log: str) -> None:
    # The stand-in's calls are stretched: about every second signal comes while a lock of ours is held.
    for after in range(100, 220, 15):
        ended = machine.run(compiled("quitting"), str(after), NVSHARE_LOG=log, SIMGPU_STRETCH_BEFORE="20ms")

        ended.well()
        assert ended.said.count("turns=") == (log == "summary")


@pytest.mark.usefixtures("daemon")
def test_the_driver_may_be_loaded_and_let_go_again_and_again(machine: Machine) -> None:
    assert machine.run(compiled("reloading")).well() == "done\n"


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("others", [0, 2])
def test_threads_streams_and_contexts_come_and_go_under_signals(machine: Machine, others: int) -> None:
    neighbours = [machine.start(compiled("hammer"), "1", "step_1us") for _ in range(others)]

    assert machine.run(compiled("threading"), "30").well() == "1\n"
    for one in neighbours:
        assert one.communicate(timeout=30)[1] == ""
        assert one.returncode == 0


@pytest.mark.usefixtures("daemon")
def test_preloaded_twice_is_as_good_as_once(machine: Machine) -> None:
    copy = machine.folder / "libnvshare-copy.so"
    shutil.copy(machine.hook, copy)

    ended = machine.run(compiled("reloading"), LD_PRELOAD=f"{machine.hook} {copy}", NVSHARE_LOG="summary")

    assert ended.well() == "done\n"
    assert ended.said.count("turns=") == 1


@pytest.mark.parametrize(
    "command", [["true"], ["sh", "-c", "ls / | cat >/dev/null"], [sys.executable, "-c", "import ctypes, ssl"]]
)
def test_a_program_without_cuda_does_not_notice(machine: Machine, command: list[str]) -> None:
    ended = machine.run(*command, LD_LIBRARY_PATH="", NVSHARE_LOG="debug")

    assert ended.well() == ""
    assert ended.said == ""


def test_without_a_daemon_a_program_waits_for_one(machine: Machine) -> None:
    program = machine.start(compiled("pulse"), "1", "3", "step_1us")
    time.sleep(0.4)
    assert program.poll() is None

    peer = Peer(machine.sockets, machine.uuids())
    _serve_first(peer)

    assert program.wait(5) == 0
    program.communicate()
    peer.stop()


def test_without_a_daemon_it_goes_on_if_told_so_and_logs_it_once(machine: Machine) -> None:
    ended = machine.run(compiled("pulse"), "1", "50", "step_1us", NVSHARE_ON_LOSS="run")

    assert len(ended.well().split()) == 50
    assert ended.said.count("no scheduler") == 1


def test_a_holder_whose_daemon_is_gone_goes_on_for_the_window_and_then_waits(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("pulse"), "10", "1000", "step_1us")
    connection = peer.accept()
    peer.welcome(connection, announce_ms=400)
    connection.hear("want")
    peer.grant(connection)
    assert program.stdout
    program.stdout.readline()
    lost = time.monotonic()
    connection.close()
    peer.stop()
    calls = [float(program.stdout.readline()) for _ in range(25)]

    assert max(calls) < 300
    assert 0.2 < time.monotonic() - lost < 0.6 or max(calls) < 300
    time.sleep(0.5)
    again = Peer(machine.sockets, machine.uuids(), epoch="0000000b")
    back = again.accept()
    assert "holding" not in again.welcome(back).words
    back.hear("want")
    again.grant(back)
    program.kill()
    program.communicate()
    again.stop()


@pytest.mark.slow
def test_the_daemon_may_be_restarted_and_its_socket_replaced(machine: Machine, daemon: Daemon) -> None:
    programs = [machine.start(compiled("pulse"), "1", "100000", "step_1us") for _ in range(2)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        _lines(programs, 20)
        daemon.end(number)
        daemon.start()
        _lines(programs, 300)
    for program in programs:
        assert program.poll() is None
        program.kill()
        program.communicate()


def _lines(programs: list, count: int) -> None:  # type: ignore[type-arg]
    for program in programs:
        for _ in range(count):
            assert program.stdout.readline()


@pytest.mark.usefixtures("daemon")
def test_the_summary_says_what_the_gpu_was_used_for(machine: Machine) -> None:
    ended = machine.run(compiled("pulse"), "1", "20", "step_5ms", NVSHARE_LOG="summary")

    ended.well()
    words = dict(word.split("=") for word in ended.said.split()[1:])
    assert 0.08 < float(words["gpu_seconds"]) < 0.3
    assert int(words["turns"]) >= 1
    assert set(words) == {"gpu_seconds", "waited_seconds", "turns", "neighbours", "peak_bytes", "overruns"}
    assert words["overruns"] == "0"


@pytest.mark.usefixtures("daemon")
def test_a_log_level_that_is_none_is_said_once(machine: Machine) -> None:
    ended = machine.run(compiled("pulse"), "1", "3", "step_1ms", NVSHARE_LOG="verbose")

    ended.well()
    assert ended.said == "nvshare: NVSHARE_LOG=verbose is not known: write quiet, summary or debug\n"


def test_a_kernel_that_suddenly_takes_much_longer_is_counted(machine: Machine) -> None:
    with running_daemon(machine.sockets, "--alone-flight=0"):  # else all of it is in flight before the first has ended
        ended = machine.run(compiled("changing"), "50", NVSHARE_LOG="summary")

    ended.well()
    assert int(ended.said.split("overruns=")[1]) >= 1


@pytest.mark.usefixtures("daemon")
def test_many_forks_leave_nothing_open(machine: Machine) -> None:
    # A program that a hooked process starts inherits no descriptor of ours.
    code = (
        "import ctypes, subprocess; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); x = ctypes.c_void_p()\n"
        "c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0); c.cuCtxSetCurrent(x); p = ctypes.c_uint64()\n"
        "print(c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)))\n"
        "print(subprocess.run(['ls', '-l', '/proc/self/fd'], close_fds=False, capture_output=True, text=True).stdout)"
    )
    out = machine.run(sys.executable, "-c", code).well()

    assert out.startswith("0\n")
    assert "socket:" not in out
    assert "memfd:" not in out


def test_a_lost_connection_is_made_again_at_once_and_the_turn_goes_on(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("pulse"), "5", "100000", "step_1us")
    first = peer.accept()
    peer.welcome(first)
    first.hear("want")
    turn = peer.grant(first)
    assert program.stdout
    program.stdout.readline()
    lost = time.monotonic()
    first.close()
    again = peer.accept()
    took = time.monotonic() - lost
    hello = again.hear("hello")
    program.kill()
    program.communicate()

    assert took < 0.5
    assert hello.words["holding"].startswith(f"{turn}@")


def test_a_process_that_began_without_a_daemon_takes_turns_from_one_that_comes(machine: Machine) -> None:
    program = machine.start(compiled("pulse"), "5", "100000", "step_1us", NVSHARE_ON_LOSS="run")
    assert program.stdout
    program.stdout.readline()
    late = Peer(machine.sockets, machine.uuids())
    try:
        connection = late.accept()
        late.welcome(connection, on_loss="run")
        connection.hear("want", within=3)
        late.grant(connection)
    finally:
        program.kill()
        _, said = program.communicate()
        late.stop()

    assert said.count("nvshare: ") == 1, said

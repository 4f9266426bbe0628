"""The daemon as a process: real sockets, real shared memory, real signals."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from contract.wire import shared_memory as layout
from schedulerd.control.client import ControlClient
from schedulerd.errors import Unusable
from tests.fakes.wire.client import Client, Daemon, running_daemon
from tests.schedulerd.faults.scene import holder_process


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(tmp_path, "--side-by-side=never") as one:
        yield one


def test_two_containers_take_turns(daemon: Daemon) -> None:
    a = Client(daemon.socket, container="a")
    b = Client(daemon.socket, container="b")
    a.want()
    first = a.hear("grant")
    b.want()
    a.hear("wanted")
    a.hear("yield")
    a.done()
    second = b.hear("grant")

    assert first.words["turn"].split(".")[0] == second.words["turn"].split(".")[0]
    assert (a.word(), b.word()) == (0, 2)


TWO_CONNECTIONS_AND_A_CHILD = """
import os
second = Client(Path(sys.argv[1]), container="other-process-too", gpus="GPU-2")
second.want(); second.hear("grant")
if os.fork() == 0:
    time.sleep(60)
print("forked", flush=True)
"""


def test_a_process_is_followed_once_and_all_it_held_is_free_when_it_dies_before_its_child(daemon: Daemon) -> None:
    turns = psutil.Process(daemon.running.pid)
    a, b = (Client(daemon.socket, container=f"c{gpu}", gpus=gpu) for gpu in ("GPU-1", "GPU-2"))
    before = turns.num_fds()
    with holder_process(daemon, TWO_CONNECTIONS_AND_A_CHILD) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        # two connections, two containers' gates and ledgers, each with its map's own; one process
        assert turns.num_fds() - before == 2 + 2 * 4 + 1
        a.want()
        b.want()
        process.kill()
        a.until("grant")
        b.until("grant")
        a.done()
        a.want()
        a.until("grant")  # the batch in which the process died is over: what it closed is closed

    assert turns.num_fds() == before


def test_without_descriptors_new_clients_are_hung_up_on_and_those_inside_go_on(daemon: Daemon) -> None:
    a = Client(daemon.socket, container="a")
    turns = psutil.Process(daemon.running.pid)
    before = turns.num_fds()
    turns.rlimit(psutil.RLIMIT_NOFILE, (before + 12, before + 12))
    crowd = []
    for number in range(20):
        with suppress(OSError):
            crowd.append(Client(daemon.socket, container=f"c{number}", gpus="GPU-2"))
    assert 0 < len(crowd) < 20
    strangers = []
    for _ in range(20):  # now not even a connection fits: who is too much is turned away
        stranger = Client(daemon.socket, container="x", hello=False)
        strangers.append(stranger)
    with pytest.raises(ConnectionError):
        strangers[-1].next()
    with pytest.raises(Unusable), ControlClient(daemon.control) as operator:
        operator.read_status()
    worked = turns.cpu_times().user
    a.want()
    a.hear("grant")
    a.next(within=0.5)
    assert turns.cpu_times().user - worked < 0.3  # it sleeps, whoever it cannot let in
    for one in (*crowd, *strangers):
        one.close()
    a.done()
    a.want()
    a.hear("grant")

    assert daemon.log().count("nothing left for its gate") == 1
    assert "cannot turn a client away" not in daemon.log()
    assert Client(daemon.socket, container="b", gpus="GPU-2").gate is not None
    assert daemon.running.poll() is None


def test_the_gate_is_open_before_the_grant_is_heard(daemon: Daemon) -> None:
    a = Client(daemon.socket, container="a")
    a.want()
    turn = a.hear("grant").words["turn"]

    assert a.word() == int(turn.split(".")[1])


def test_clients_cannot_write_the_gate(daemon: Daemon) -> None:
    a = Client(daemon.socket, container="a", hello=False)
    a.say("hello", v=1, pid=os.getpid(), gpus="GPU-1", container="a")
    a.hear("welcome")
    gate = a._fds[0]

    with pytest.raises(PermissionError):
        mmap.mmap(gate, layout.gate_size(1), prot=mmap.PROT_READ | mmap.PROT_WRITE)


def test_the_ledger_names_the_slots_owner(daemon: Daemon) -> None:
    a = Client(daemon.socket, container="a", hello=False)
    welcome = a.hello()

    assert a.ledger is not None
    assert a.ledger[:8] == layout.LEDGER_MAGIC
    slot = layout.ledger_slot(1, int(welcome.words["slot"]))
    assert int.from_bytes(a.ledger[slot : slot + 8], sys.byteorder) == int(welcome.words["client"])


def test_sigterm_ends_it_cleanly_and_takes_the_socket_away(daemon: Daemon) -> None:
    assert daemon.end() == 0
    assert not daemon.socket.exists()


def test_a_second_daemon_on_the_same_folder_is_refused(daemon: Daemon) -> None:
    control = f"--control={daemon.folder / 'other.sock'}"
    command = [sys.executable, "-m", "schedulerd", "--identity=none", f"--sockets={daemon.folder}", control]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert second.returncode == 2
    assert "another daemon answers" in second.stderr


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        pytest.param(["--policy=lottery"], "must be fair, rr, priority", id="a policy that does not exist"),
        pytest.param(["--quantum=fast"], "must be auto, or a duration", id="a quantum that is no duration"),
        pytest.param(["--sockets=/nowhere/at/all"], "is not a folder", id="a folder that is not there"),
        pytest.param(["--control=/proc/1/c.sock"], "cannot listen on", id="a folder that takes no socket"),
        pytest.param(["--switching-share=90%"], "a percentage from", id="a share beyond its bounds"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_would_be_right(flags: Any, sentence: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedulerd", "--identity=none", f"--control={tmp_path}/c.sock", *flags]
    run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert run.returncode == 2
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr

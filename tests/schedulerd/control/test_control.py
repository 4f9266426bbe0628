"""The control socket and nvsharectl, against a daemon of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.wire.client import Client, Daemon, running_daemon
from tests.schedulerd.control.commands import ctl, load_of


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(tmp_path, "--side-by-side=never", "--quantum=10s", "--log-level=info") as one:
        yield one


def two_on_one_gpu(daemon: Daemon) -> tuple[Client, Client]:
    a, b = Client(daemon.socket, container="a"), Client(daemon.socket, container="b")
    a.want()
    a.hear("grant")
    b.want()
    a.hear("wanted")
    return a, b


def test_status_names_who_holds_and_who_waits(daemon: Daemon) -> None:
    _clients = two_on_one_gpu(daemon)
    status = json.loads(ctl(daemon, "status", "--json").stdout)

    assert {one["key"]: one["gpus"][0]["state"] for one in status["containers"]} == {"a": "holds", "b": "waits"}
    assert status["gpus"][0]["holders"] == 1
    assert "a" in ctl(daemon, "status").stdout


def test_top_shows_shares(daemon: Daemon) -> None:
    _clients = two_on_one_gpu(daemon)
    shown = ctl(daemon, "top", "--rounds=2", "--every=0.3").stdout

    rows = [line.split() for line in shown.splitlines() if line.split()[1:2] in (["a"], ["b"])]
    shares = {row[1]: [int(word[:-1]) for word in row if word.endswith("%")] for row in rows}
    assert "SHARE" in shown
    assert shares["a"][0] > 50, "it holds the GPU; on a busy machine the asker's clock is a little off"
    assert shares["b"] == [0]


def test_a_shorter_quantum_reaches_the_next_turn(daemon: Daemon) -> None:
    a, b = two_on_one_gpu(daemon)
    assert ctl(daemon, "quantum", "50ms").returncode == 0
    a.done(reason="idle")
    assert b.hear("grant").words["quantum_ms"] == "50"


def test_another_policy_takes_effect_at_once(daemon: Daemon) -> None:
    assert ctl(daemon, "policy", "fcfs").returncode == 0
    assert json.loads(ctl(daemon, "status", "--json").stdout)["daemon"]["policy"] == "fcfs"


def test_pause_asks_the_holder_to_yield_and_resume_serves_who_waits(daemon: Daemon) -> None:
    a, b = two_on_one_gpu(daemon)
    ctl(daemon, "pause")
    a.hear("yield")
    a.done()
    assert b.next(within=0.2) is None
    ctl(daemon, "resume")
    b.hear("grant")


def test_a_drained_gpu_says_so_in_the_load_and_its_tenants_go_on(daemon: Daemon) -> None:
    a, b = two_on_one_gpu(daemon)
    assert ctl(daemon, "drain", "GPU-1").returncode == 0
    a.done()
    b.hear("grant")

    assert load_of(daemon).gpus[0].drained


def test_the_load_counts_clients_waiters_and_busy_time(daemon: Daemon) -> None:
    _clients = two_on_one_gpu(daemon)
    time.sleep(0.5)
    (gpu,) = load_of(daemon).gpus

    assert (gpu.clients, gpu.waiting, gpu.drained) == (2, 1, False)
    assert 0.02 < gpu.busy < 0.5


def test_each_change_is_logged_with_who_made_it(daemon: Daemon) -> None:
    ctl(daemon, "policy", "rr")
    assert "policy name=rr" in daemon.log()
    assert "uid 0" in daemon.log() or "uid" in daemon.log()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["policy", "lottery"], "is no policy: there are fair", id="an unknown policy"),
        pytest.param(["quantum", "soon"], "is no turn: it must be auto", id="an unknown time"),
        pytest.param(["drain", "GPU-77"], "is not a GPU of this node", id="an unknown GPU"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_a_sentence(daemon: Daemon, words: list[str], sentence: str) -> None:
    run = ctl(daemon, *words)
    assert run.returncode == 1
    assert sentence in run.stderr


def test_no_daemon_is_said_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedulerd.nvsharectl", f"--control={tmp_path}/nobody.sock", "status"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert run.returncode == 1
    assert "cannot reach the scheduler" in run.stderr


def test_the_control_socket_is_for_root_only(daemon: Daemon) -> None:
    assert daemon.control.stat().st_mode & 0o777 == 0o600

"""Who uses a GPU without being known: the observer on the software GPU's NVML, a real turn process, the real hook."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from contract.wire.control import PodFacts
from contract.wire.line import decode
from contract.wire.shared_memory import LEDGER_SLOTS
from contract.wire.status import decode_status
from schedulerd.control.client import ControlClient
from schedulerd.control.status import write_status
from schedulerd.core.model import Container, Rules
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.observer.service import Observer
from schedulerd.settings import build_parser, read_settings
from tests.fakes.gpu_machine import BUILD, ROOT, Machine, in_own_process_namespace
from tests.fakes.wire.client import PATIENCE, Daemon, running_daemon

HOOK = ROOT / "build" / "hook" / "libnvshare.so"
HERE = pytest.param(list, id="on the host")
IN_A_CONTAINER = pytest.param(in_own_process_namespace, id="as process 1 of a container")


class Events:
    """The cluster, as far as it is told of the node."""

    watching = True
    dropped_events = 0

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def tell_node(self, *, reason: str, message: Any, topic: str) -> Any:
        assert topic in message
        self.told.append((reason, message))


def until(said: Any) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := said()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)
    return found


def look(control: Path, times: int) -> Any:
    """Let an observer look so many times, in a process of its own; return what its page counts, and the events."""
    observer = Observer(read_settings(build_parser().parse_args([f"--control={control}"]), {}))
    events: Any = Events()
    observer.cluster = events
    threading.Thread(target=observer.follow, daemon=True).start()
    until(lambda: not observer.healthy())
    for _ in range(times):
        observer.look(with_processes=True)
    counts = [line for line in observer.metrics() if line.startswith("nvshare_schedulerd_gpu_unknown_processes{")]
    return [int(line.rsplit(" ", 1)[1]) for line in counts], events.told


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(tmp_path) as one:
        yield one


@contextmanager
def burning(machine: Machine, label: str, prefix: Any = (), **variables: str) -> Iterator[Any]:
    """Start a program that computes; return its process id as the host knows it."""
    command = [*prefix, str(BUILD / "burn"), "--kernel-ms", "5", "--seconds", "60", "--quiet"]
    program = subprocess.Popen(command, env=machine.environment(label) | variables)
    try:
        until(lambda: f"{label} (pid" in machine.tool("status").stdout)
        yield psutil.Process(program.pid).children()[0].pid if prefix else program.pid
    finally:
        program.kill()
        program.wait()


def hooked(machine: Machine, daemon: Daemon, prefix: Any) -> Any:
    return burning(machine, "ours", prefix, LD_PRELOAD=str(HOOK), NVSHARE_SOCKETS=str(daemon.folder))


def containers(daemon: Daemon) -> Any:
    with ControlClient(daemon.control) as asking:
        return asking.read_status().containers


@pytest.mark.parametrize("prefix", [HERE, IN_A_CONTAINER])
def test_a_process_without_the_hook_is_counted_and_told_once(machine: Machine, daemon: Daemon, prefix: Any) -> None:
    with burning(machine, "stranger", prefix()) as pid, machine.client() as client:
        counts, events = client.call(look, daemon.control, 3)

    assert counts == [1]
    [(reason, message)] = events
    assert reason == "GpuUsedWithoutTurns"
    assert message.endswith(f"do not take turns: {pid}")


@pytest.mark.parametrize("prefix", [HERE, IN_A_CONTAINER])
def test_a_process_with_the_hook_is_no_stranger(machine: Machine, daemon: Daemon, prefix: Any) -> None:
    with hooked(machine, daemon, prefix()) as pid, machine.client() as client:
        [container] = until(lambda: containers(daemon))  # it has a context a moment before it says hello
        assert container.pids == (pid,)
        assert client.call(look, daemon.control, 3) == ([0], [])


def test_of_two_containers_whose_programs_are_both_process_1_the_one_without_the_hook_is_told(
    machine: Machine, daemon: Daemon
) -> None:
    isolate = in_own_process_namespace()
    with hooked(machine, daemon, isolate), burning(machine, "stranger", isolate) as pid, machine.client() as client:
        until(lambda: containers(daemon))
        counts, events = client.call(look, daemon.control, 2)

    assert counts == [1]
    assert [message.rsplit(": ", 1)[1] for _, message in events] == [str(pid)]


def test_one_look_says_nothing_yet_for_a_hello_may_be_under_way(machine: Machine, daemon: Daemon) -> None:
    with burning(machine, "stranger"), machine.client() as client:
        assert client.call(look, daemon.control, 1) == ([0], [])


def test_every_process_of_a_full_container_is_named_and_fits_the_line() -> None:
    key, processes = "%" * 253, range(4_000_000, 4_000_000 + LEDGER_SLOTS)
    turns = Turns(Rules(), epoch="0000000a")
    for pid in processes:
        turns.join(pid, Container(key=key, gpus=("GPU-1",)))
    pod = PodFacts(namespace="n" * 63, pod="p" * 253, container="c" * 63)
    node = Node(pids={pid: pid for pid in processes}, pods={key: pod})
    [container] = decode_status(map(decode, write_status(turns, node, now=0.0))).containers

    assert container.pids == tuple(processes)

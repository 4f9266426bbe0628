"""What the hook's tests share: the built libraries, a machine of their own, the daemon's end of the wire."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.wire.client import Daemon
from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import ROOT, Machine


@pytest.fixture(scope="session", autouse=True)
def _libraries() -> None:
    for room in ("simgpu", "hook"):
        subprocess.run(["make", "-s", "-C", str(ROOT / room)], check=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def peer(machine: Machine) -> Iterator[Peer]:
    """Start a scripted daemon for a machine with one GPU."""
    one = Peer(machine.sockets, machine.uuids())
    yield one
    one.stop()


@pytest.fixture
def daemon(machine: Machine) -> Iterator[Daemon]:
    """Start the real daemon with turns of 50 ms and no two containers side by side."""
    one = Daemon(machine.sockets, "--quantum=50ms", "--side-by-side=never")
    one.start()
    yield one
    if one.process is not None and one.process.poll() is None:
        one.end()

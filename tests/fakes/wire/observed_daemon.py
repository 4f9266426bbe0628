"""A daemon with its observer, each in its own process."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tests.fakes.wire.client import PATIENCE, Daemon, running_daemon


@contextlib.contextmanager
def observed_daemon(folder: Path, *flags: str) -> Iterator[tuple[Daemon, psutil.Process]]:
    """Run a daemon with its observer."""
    with running_daemon(folder, "--observer=spawn", "--metrics-port=0", "--log-level=info", *flags) as daemon:
        assert daemon.process is not None
        yield daemon, observer_of(daemon.process.pid)
        daemon.end()


def observer_of(pid: int) -> psutil.Process:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for child in psutil.Process(pid).children():
            if any(one.status == psutil.CONN_LISTEN for one in child.net_connections()):
                return child
        time.sleep(0.05)
    raise AssertionError("the observer does not listen")


def until(said: Callable[[], object], within: float = PATIENCE) -> None:
    """Wait for what another thread or process brings about."""
    end = time.monotonic() + within
    while not said():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)

"""A daemon for a fault, its clients, and whether it still serves."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.wire.client import Client, Daemon, Silence, running_daemon

EXCLUSIVE = "--side-by-side=never"
QUICK = 5.0
"""Seconds for what should take milliseconds; the figures say how long it took."""


@contextlib.contextmanager
def daemon(*flags: str) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder, running_daemon(Path(folder), EXCLUSIVE, *flags) as one:
        yield one
        if "Traceback" in one.log():
            raise AssertionError(one.log()[-2000:])


def holder_and_waiter(one: Daemon) -> tuple[Client, Client]:
    holder, waiter = Client(one.socket, container="holder"), Client(one.socket, container="waiter")
    holder.want()
    holder.hear("grant")
    waiter.want()
    holder.hear("wanted", "yield")
    return holder, waiter


def still_serves(one: Daemon, *, within: float = QUICK) -> float:
    """Return the seconds until a new client is served."""
    began = time.monotonic()
    client = Client(one.socket, container=f"new{began}", gpus="GPU-1")
    client.want()
    client.until("grant", within=within)
    client.close()
    assert one.process is not None
    if one.process.poll() is not None:
        raise AssertionError("the daemon has died")
    return time.monotonic() - began


HOLDER = """
import sys, time
from pathlib import Path
from tests.fakes.wire.client import Client
client = Client(Path(sys.argv[1]), container="other-process")
client.want(); client.hear("grant"); print("holds", flush=True)
{then}
time.sleep(60)
"""


@contextlib.contextmanager
def holder_process(one: Daemon, then: str = "") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER.format(then=then), str(one.socket)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "holds":
            raise Silence("the other process was not granted anything")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

"""nvsharectl as a process, and the load query."""

import subprocess
import sys

from contract.wire.load import QUERY, Load, decode_load
from schedulerd.control.client import ControlClient
from tests.fakes.wire.client import Daemon


def ctl(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "schedulerd.nvsharectl", f"--control={daemon.control}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def load_of(daemon: Daemon) -> Load:
    with ControlClient(daemon.control) as client:
        client._socket.sendall(QUERY)
        return decode_load(iter(client._file.readline, b""))

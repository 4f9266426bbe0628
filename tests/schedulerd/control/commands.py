"""nvsharectl as a process, and the load query."""

import subprocess
import sys

from contract.load import QUERY, decode_load
from schedulerd.control.client import ControlClient


def ctl(daemon, *words):
    command = [sys.executable, "-m", "schedulerd.nvsharectl", f"--control={daemon.control}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def load_of(daemon):
    with ControlClient(daemon.control) as client:
        client._socket.sendall(QUERY)
        return decode_load(iter(client._file.readline, b""))

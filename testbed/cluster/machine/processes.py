"""Long-running programs of a run: start them with a log file, wait for them, end them.

The rule: every process carries its run's name in its environment (`MARK`).  So the remains of a killed run can be found
among all processes of the machine, whatever their parent is now.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.cluster.errors import BrokenError

MARK = "GUARD_TEST_RUN"
_PROBE_SECONDS = 0.05


@dataclass(kw_only=True)
class Process:
    """One program that may be stopped and started again; tests restart a kubelet in this way."""

    name: str
    command: Sequence[str]
    logs: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    dies_with_us: bool = False
    """The kernel kills it when this process dies, in whatever way."""
    _running: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.logs / f"{self.name}.log"

    @property
    def pid(self) -> int:
        if self._running is None:
            raise BrokenError(f"{self.name} is not running", "start it first")
        return self._running.pid

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def start(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # a session of its own: Ctrl-C reaches us, and we end the programs in their order
            self._running = subprocess.Popen(
                [*self._leash(), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def _leash(self) -> list[str]:
        # for the kernel the parent is the thread that started it, and only the main thread lives as long as we do
        is_main = threading.current_thread() is threading.main_thread()
        can = self.dies_with_us and is_main and shutil.which("setpriv")
        return ["setpriv", "--pdeathsig", "KILL", "--"] if can else []

    def stop(self, *, grace_seconds: float = 10.0) -> None:
        """Ask it to end, then end it."""
        if self._running is None:
            return
        self._try_signal(signal.SIGTERM)
        try:
            self._running.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._running = None

    def kill(self) -> None:
        """End it without asking, as a crash would."""
        if self._running is not None:
            self._try_signal(signal.SIGKILL)
            self._running.wait()
            self._running = None

    def _try_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, BrokenError):
            os.kill(self.pid, number)

    def restart(self) -> None:
        self.stop()
        self.start()

    def last_lines(self, count: int = 15) -> str:
        return last_lines(self.log, count)


def last_lines(log: Path, count: int) -> str:
    if not log.exists():
        return f"({log.name} was never written)"
    with log.open(errors="replace") as lines:
        return "".join(deque(lines, count)).rstrip()


def wait_until(
    is_so: Callable[[], bool], *, what: str, seconds: float, needs: Sequence[Process] = (), remedy: str = ""
) -> None:
    """Wait for a condition that nothing announces; raise at once when a process that it needs has died."""
    deadline = time.monotonic() + seconds
    while not is_so():
        for process in needs:
            if not process.is_running:
                raise BrokenError(
                    f"{process.name} ended while waiting for: {what}\n{process.last_lines()}", str(process.log)
                )
        if time.monotonic() > deadline:
            logs = "\n".join(f"{process.name}:\n{process.last_lines()}" for process in needs)
            raise BrokenError(
                f"not within {seconds:g} s: {what}\n{logs}".rstrip(), remedy or "read the log lines above"
            )
        time.sleep(_PROBE_SECONDS)


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Find ports on which nothing listens, below the range that the kernel uses for outgoing connections."""
    with contextlib.ExitStack() as held:
        return [_bind_free(held.enter_context(socket.socket()), address) for _ in range(count)]


def _bind_free(probe: socket.socket, address: str) -> int:
    for _ in range(1000):
        port = 20000 + int.from_bytes(os.urandom(2), "big") % 12000
        with contextlib.suppress(OSError):
            probe.bind((address, port))
            return port
    raise BrokenError(f"no free port on {address}", "find what listens there: ss -ltn")


def marked_pids(run: str) -> Iterator[int]:
    """Yield the processes of a run, whatever their parent is; processes of other users cannot be read."""
    wanted = f"{MARK}={run}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)

"""A client of the protocol and a daemon as a process, for drills, benches and tests over real sockets.

The client speaks PROTOCOL.md with the contract's line codec and none of the daemon's own code.
"""

import array
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.wire import shared_memory as layout
from contract.wire.line import Line, decode, encode

PATIENCE = 20.0
"""Seconds after which a test gives up; far beyond whatever the daemon may take."""


class Silence(AssertionError):
    """The daemon did not say what was waited for."""


class Client:
    """One process as the daemon sees it."""

    def __init__(self, path: Path, *, container: str, gpus: str = "GPU-1", hello: bool = True, **words: object) -> None:
        self.container, self.gpus, self.words = container, gpus, words
        self.inbox: deque[Line] = deque()
        self.gate: mmap.mmap | None = None
        self.ledger: mmap.mmap | None = None
        self.turn = ""
        self._rest = b""
        self._fds: list[int] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))  # before the time limit: with one a full backlog would not be waited for
        self.socket.settimeout(PATIENCE)
        if hello:
            self.hello()

    def hello(self) -> Line:
        self.say("hello", v=1, pid=os.getpid(), gpus=self.gpus, container=self.container, **self.words)
        welcome = self.hear("welcome")
        gpus = len(welcome.words["gpus"].split(","))
        gate, ledger = self._fds[:2]
        self.gate = mmap.mmap(gate, layout.gate_size(gpus), prot=mmap.PROT_READ)
        self.ledger = mmap.mmap(ledger, layout.ledger_size(gpus))
        for descriptor in self._fds:
            os.close(descriptor)
        self._fds.clear()
        return welcome

    def say(self, verb: str, **words: object) -> None:
        self.socket.sendall(encode(Line(verb, {key: str(value) for key, value in words.items()})))

    def want(self, gpus: str | None = None) -> None:
        self.say("want", gpus=gpus or self.gpus)

    def done(self, turn: str | None = None, reason: str = "yield") -> None:
        self.say("done", turn=turn or self.turn, reason=reason)

    def hear(self, *verbs: str, within: float = PATIENCE) -> Line:
        """Return the next message, which must be one of these."""
        line = self.next(within=within)
        if line is None or line.verb not in verbs:
            raise Silence(f"{self.container} waited {within} s for {' or '.join(verbs)} and heard {line}")
        return line

    def next(self, within: float = PATIENCE) -> Line | None:
        until = time.monotonic() + within
        while not self.inbox:
            rest = max(0.0, until - time.monotonic())
            ready = select.poll()  # not select(): a drill has 10,000 descriptors
            ready.register(self.socket, select.POLLIN)
            if not ready.poll(rest * 1000):
                return None
            self._receive()
        line = self.inbox.popleft()
        if line.verb == "grant":
            self.turn = line.words["turn"]
        return line

    def until(self, verb: str, within: float = PATIENCE) -> Line:
        """Return the next message with this verb; skip others before it."""
        end = time.monotonic() + within
        while (line := self.next(within=max(0.0, end - time.monotonic()))) is not None:
            if line.verb == verb:
                return line
        raise Silence(f"{self.container} waited {within} s for {verb}")

    def word(self, place: int = 0) -> int:
        """Return the gate's word of a GPU."""
        assert self.gate is not None
        value: int = struct.unpack_from("=I", self.gate, layout.gate_word(place))[0]
        return value

    def _receive(self) -> None:
        data, rights, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(8))
        for _level, _kind, raw in rights:
            self._fds.extend(array.array("i", raw))
        if not data:
            raise ConnectionResetError("the daemon hung up")
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.inbox.extend(map(decode, lines))

    def close(self) -> None:
        self.socket.close()


class Daemon:
    """`nvshare-schedulerd` as a process of its own, stand-alone, in a folder of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.flags = flags
        self.socket = folder / "scheduler.sock"
        self.control = folder / "control.sock"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """Return the process of a daemon that was started."""
        assert self.process is not None
        return self.process

    def start(self) -> None:
        command = [sys.executable, "-m", "schedulerd", "--identity=none", f"--sockets={self.folder}"]
        command += [f"--control={self.control}", "--observer=none", "--log-level=warning", *self.flags]
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                if probe.connect_ex(str(self.socket)) == 0:
                    return
            assert self.process is not None
            if self.process.poll() is not None:
                raise Silence((self.folder / "log").read_text()[-2000:])
            time.sleep(0.005)
        raise Silence("the daemon did not start")

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def log(self) -> str:
        return (self.folder / "log").read_text()


@contextmanager
def running_daemon(folder: Path, *flags: str) -> Iterator[Daemon]:
    """Run a daemon for the length of a block."""
    daemon = Daemon(folder, *flags)
    daemon.start()
    try:
        yield daemon
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end(signal.SIGKILL)

"""A scripted daemon on the wire: it sends the lines that a test names, and fails when an expected line does not come.

It speaks PROTOCOL.md with the contract's codec and layouts, and decides nothing.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct
import time
from collections import deque
from pathlib import Path

from contract.wire import shared_memory as layout
from contract.wire.line import Line, decode, encode
from contract.words import paths

PATIENCE = 10.0
SEALS = 0x0002 | 0x0004 | 0x0010 | 0x0001  # shrink, grow, future write, seal
SYS_FUTEX, FUTEX_WAKE = 202, 1
_libc = ctypes.CDLL(None)


class Unheard(AssertionError):
    """The hook did not say what was expected."""


class Gate:
    """A container's gate: sealed as the daemon seals it, its waiters woken at each change."""

    def __init__(self, gpus: int) -> None:
        size = layout.gate_size(gpus)
        self.descriptor = os.memfd_create("gate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        self.memory = mmap.mmap(self.descriptor, size)
        fcntl.fcntl(self.descriptor, 1033, SEALS)
        self.memory[0:12] = layout.GATE_MAGIC + struct.pack("=I", gpus)
        self._words = [ctypes.c_uint32.from_buffer(self.memory, layout.gate_word(gpu)) for gpu in range(gpus)]

    def set(self, gpu: int, word: int) -> None:
        self._words[gpu].value = word
        _libc.syscall(SYS_FUTEX, ctypes.byref(self._words[gpu]), FUTEX_WAKE, 1 << 30, None, None, 0)

    def word(self, gpu: int) -> int:
        return int(self._words[gpu].value)


class Ledger:
    """A container's ledger."""

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        self.descriptor = os.memfd_create("ledger", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, layout.ledger_size(gpus))
        self.memory = mmap.mmap(self.descriptor, layout.ledger_size(gpus))
        self.memory[0:16] = layout.LEDGER_MAGIC + struct.pack("=II", gpus, layout.LEDGER_SLOTS)

    def set_owner(self, slot: int, owner: int) -> None:
        at = layout.ledger_slot(self.gpus, slot)
        self.memory[at : at + layout.ledger_slot_size(self.gpus)] = bytes(layout.ledger_slot_size(self.gpus))
        self.memory[at : at + 8] = struct.pack("=Q", owner)

    def fields(self, slot: int, gpu: int = 0) -> tuple[int, int, int, int]:
        """Return pageable, unpageable, peak and context."""
        at = layout.ledger_slot(self.gpus, slot) + layout.LINE * (1 + gpu)
        found: tuple[int, int, int, int] = struct.unpack_from("=4Q", self.memory, at)
        return found

    def total(self, gpu: int = 0) -> int:
        return sum(sum(self.fields(slot, gpu)[:2]) for slot in range(layout.LEDGER_SLOTS))


class Connection:
    """One hooked process."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.inbox: deque[Line] = deque()
        self._rest = b""

    def say(self, verb: str, /, *descriptors: int, **words: object) -> None:
        raw = encode(Line(verb, {key: str(value) for key, value in words.items()}))
        if descriptors:
            socket.send_fds(self.socket, [raw], descriptors)
        else:
            self.socket.sendall(raw)

    def next(self, *, within: float = PATIENCE) -> Line | None:
        end = time.monotonic() + within
        while not self.inbox:
            rest = end - time.monotonic()
            if rest < 0 or not select.select([self.socket], [], [], rest)[0]:
                return None
            data = self.socket.recv(65536)
            if not data:
                raise Unheard("the process hung up")
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.inbox.extend(map(decode, lines))
        return self.inbox.popleft()

    def hear(self, verb: str, *, within: float = PATIENCE, passing: tuple[str, ...] = ("using",), **words: str) -> Line:
        """Return the next line; skip those in `passing`."""
        line = self.next(within=within)
        while line is not None and line.verb in passing and line.verb != verb:
            line = self.next(within=within)
        if line is None or line.verb != verb or not words.items() <= line.words.items():
            raise Unheard(f"expected {verb} {words}, heard {line}")
        return line

    def hears_nothing(self, *, within: float = 0.05) -> None:
        line = self.next(within=within)
        if line is not None:
            raise Unheard(f"expected silence, heard {line}")

    def close(self) -> None:
        self.socket.close()


class Peer:
    """A scripted daemon: one listening socket, gates and a ledger a container."""

    def __init__(self, folder: Path, gpus: list[str], *, epoch: str = "0000000a") -> None:
        self.folder, self.gpus, self.epoch = folder, gpus, epoch
        self.path = folder / paths.SOCKET_NAME
        self.gate, self.ledger = Gate(len(gpus)), Ledger(len(gpus))
        self.counter = self.clients = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        with _working_in(folder):
            self._listener.bind(self.path.name)
        self._listener.listen(64)
        self._listener.settimeout(PATIENCE)

    def accept(self) -> Connection:
        return Connection(self._listener.accept()[0])

    def is_asked(self, *, within: float) -> bool:
        return bool(select.select([self._listener], [], [], within)[0])

    def welcome(self, connection: Connection, **words: object) -> Line:
        """Read the hello and answer it."""
        hello = connection.hear("hello")
        slot, self.clients = self.clients, self.clients + 1
        self.ledger.set_owner(slot, self.clients)
        given = {"v": 1, "epoch": self.epoch, "client": self.clients, "container": "c", "mode": "per-device"}
        given |= {"gpus": ",".join(self.gpus), "slot": slot, "announce_ms": 2000, "grace_ms": 5000}
        given |= {"flight_ms": 20, "fds": "gate,ledger"} | words
        connection.say("welcome", self.gate.descriptor, self.ledger.descriptor, **given)
        return hello

    def grant(self, connection: Connection, gpu: int = 0, **words: object) -> str:
        """Open the gate and send the grant."""
        self.counter += 1
        turn = f"{self.epoch}.{self.counter}"
        self.gate.set(gpu, self.counter)
        connection.say("grant", **({"turn": turn, "gpus": self.gpus[gpu], "beside": 0, "waiting": 0} | words))
        return turn

    def close_gate(self, gpu: int = 0) -> None:
        self.gate.set(gpu, 0)

    def stop(self) -> None:
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


@contextlib.contextmanager
def _working_in(folder: Path):  # type: ignore[no-untyped-def]
    """Change to the folder for the length of a block, since a socket's address holds only 107 bytes."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)

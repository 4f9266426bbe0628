"""The hook replays a process's part of every dialogue in tests/wire/: the steps of the application are real launches.

The peer plays the daemon's side towards the one process that has an application; the others it leaves out.
"""

import re
import select
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.wire.line import decode
from tests.fakes.wire.daemon import PATIENCE, Connection, Peer
from tests.hook.support.machine import Machine, compiled

DIALOGUES = sorted((Path(__file__).parents[2] / "wire").glob("*.txt"))
ACTED = [path for path in DIALOGUES if "! " in path.read_text()]
SILENCE = 0.05
PROBED = ("v", "gpus", "turn", "reason", "holding", "beside", "card_bytes")
"""The keys of the hook's lines that a dialogue speaks of; a pid is the machine's."""


class Stage:
    """The daemon's side of a dialogue, and the application it commands."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self.machine = machine
        self.lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        self.actor = next(line.split("!")[0] for line in self.lines if "! " in line)
        self.home = next(line.split()[3] for line in self.lines if line.startswith(f"process {self.actor} of"))
        self.mates = {line.split()[1] for line in self.lines if re.fullmatch(rf"process \w+ of {self.home}", line)}
        container = next(line for line in self.lines if line.startswith(f"container {self.home} "))
        self.mode = _words(container.split(" ", 2)[2])["mode"]
        self.names = _words(container.split(" ", 2)[2])["gpus"].split(",")
        self.uuids = machine.uuids()
        self.peer: Peer | None = None
        self.connection: Connection | None = None
        self.has_begun = False
        self.turn = ""
        self.in_flight = 0
        self.settings: dict[str, str] = {}

    @contextmanager
    def programs(self) -> Iterator[None]:
        visible = self.real(",".join(self.names))
        self.program = self.machine.start(compiled("actor"), CUDA_VISIBLE_DEVICES=visible)
        self.partner = self.machine.start(compiled("actor"), hooked=False, CUDA_VISIBLE_DEVICES=visible)
        try:
            for one in (self.program, self.partner):
                assert _line(one) == "ready", one.communicate()
            yield
        finally:
            for one in (self.program, self.partner):
                one.kill()
                one.communicate()

    def real(self, text: str) -> str:
        return re.sub(r"GPU-(\d)(?![0-9a-f])", lambda found: self.uuids[int(found[1]) - 1], text)

    def tell(self, program: "subprocess.Popen[str]", word: str, gpu: str = "") -> None:
        assert program.stdin
        program.stdin.write(f"{word} {self.names.index(gpu) if gpu else 0}\n")
        program.stdin.flush()

    def play(self) -> None:
        for number, line in enumerate(self.lines):
            try:
                self.step(line, number)
            except Exception as error:
                raise AssertionError(f"line {line!r}: {error}") from error

    def step(self, line: str, number: int) -> None:
        first, *rest = line.split()
        steps: dict[str, Callable[[list[str]], None]] = {
            "daemon": self.daemon,
            "process": self.process,
            "gate": self.gate,
            f"{self.actor}!": self.application,
            f"{self.actor}<": self.say,
        }
        if first in steps:
            steps[first](rest)
        elif first == f"{self.actor}>":
            self.hear(rest, number)
        elif first == self.actor and rest == ["gone"]:
            self.program.kill()
        elif first.removesuffix("<") in self.mates and rest[0] == "grant":
            self.open_gate({key: self.real(value) for key, value in _words(" ".join(rest)).items()})

    # the words of a dialogue

    def daemon(self, rest: list[str]) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.peer is not None:
            self.peer.stop()
        if rest != ["gone"]:
            self.settings = _words(" ".join(["daemon", *rest]))
            gpus = self.real(",".join(self.names)).split(",")
            self.peer = Peer(self.machine.folder, gpus, epoch=self.settings["epoch"])

    def process(self, rest: list[str]) -> None:
        assert self.peer
        if rest[0] != self.actor:
            return
        if not self.has_begun:
            self.tell(self.program, "hello")
            self.has_begun = True
        self.connection = self.peer.accept()

    def gate(self, rest: list[str]) -> None:
        container, gpu, state = rest
        assert self.peer
        if container == self.home and state == "closed":
            self.peer.close_gate(self.names.index(gpu))

    def application(self, rest: list[str]) -> None:
        verb, gpu = rest
        if verb == "launch":
            self.tell(self.program, "launch", gpu)
            self.in_flight += 1
        elif verb == "finished":
            for _ in range(self.in_flight):
                self.tell(self.partner, "launch", gpu)
            self.in_flight = 0
        else:
            assert self.program.stdout
            heard = select.select([self.program.stdout], [], [], 5 if verb == "ran" else SILENCE)[0]
            assert bool(heard) == (verb == "ran"), "it has gone through" if heard else "it has not gone through"
            if heard:
                assert _line(self.program) == f"ran {self.names.index(gpu)}"

    def say(self, rest: list[str]) -> None:
        assert self.peer
        assert self.connection
        line = decode(" ".join(rest).encode())
        words = {key: self.real(value) for key, value in line.words.items()}
        if line.verb == "welcome":
            self.connection.say(
                "welcome",
                self.peer.gate.descriptor,
                self.peer.ledger.descriptor,
                **({"epoch": self.peer.epoch, "gpus": ",".join(self.peer.gpus), "mode": self.mode, "slot": 0} | words),
            )
            return
        if line.verb == "grant":
            self.open_gate(words)
        self.connection.say(line.verb, **words)

    def open_gate(self, words: dict[str, str]) -> None:
        """Open the container's gate, which all its processes share, when one of them is granted a turn."""
        assert self.peer
        self.turn = words["turn"]
        for gpu in words["gpus"].split(","):
            self.peer.gate.set(self.peer.gpus.index(gpu), int(self.turn.split(".")[1]))

    def hear(self, rest: list[str], number: int) -> None:
        line = decode(" ".join(rest).encode())
        if line.verb == "done" and line.words["turn"] != self.turn:
            return  # stale: written for the daemon; the hook never says it
        assert self.connection
        wanted = {key: self.real(value) for key, value in line.words.items() if key in PROBED}
        self.connection.hear(line.verb, within=PATIENCE, passing=("using",), **wanted)
        after = self.lines[number + 1 :]
        follows = next((one for one in after if one.startswith((f"{self.actor}>", f"{self.actor}!"))), "")
        if not follows.startswith(f"{self.actor}>"):
            self.connection.hears_nothing(within=SILENCE)


def _words(text: str) -> dict[str, str]:
    return dict(decode(text.encode() if text.split(" ")[0].isalpha() else f"x {text}".encode()).words)


def _line(program: "subprocess.Popen[str]") -> str:
    assert program.stdout
    return program.stdout.readline().strip()


@pytest.mark.parametrize("path", ACTED, ids=lambda path: path.stem)
def test_the_hook_says_and_does_what_the_dialogue_says(machine: Machine, path: Path) -> None:
    machine.devices = "2xT4-16GB"
    stage = Stage(machine, path)

    with stage.programs():
        stage.play()

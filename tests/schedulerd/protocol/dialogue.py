"""Replays a dialogue of tests/wire/ with the daemon's whole core: bytes in, bytes out, the clock in between.

What a line means stands in tests/wire/README.md.  The core, not a model of it, answers every line; steps of the
application (`A!`) are the hook's part and are passed over.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path

from contract.wire.line import Line, decode, encode
from contract.words.grammar import Mode
from schedulerd.core import messages
from schedulerd.core.model import Accounted, Admit, Container, Hangup, Order, Rules, SetGate, Tell
from schedulerd.core.recovery import nobody_before
from schedulerd.core.turns import Turns
from schedulerd.policies import POLICIES
from schedulerd.protocol import codec
from schedulerd.protocol.sessions import Sessions

DIALOGUES = sorted((Path(__file__).parents[2] / "wire").glob("*.txt"))


class BrokenDialogue(AssertionError):
    """The daemon did not say what the dialogue says."""


@dataclass
class Stage:
    """The daemon of a dialogue, its processes' inboxes and its gates."""

    now: float = 0.0
    sessions: Sessions | None = None
    containers: dict[str, Container] = field(default_factory=dict)
    clients: dict[str, int] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=dict)
    inbox: dict[str, deque[Line]] = field(default_factory=lambda: defaultdict(deque))
    gates: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    footprint: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=lambda: defaultdict(dict))
    """Of each GPU: who has it, with which processes; what the next daemon finds."""

    def find(self, client: int, _hello: messages.Hello) -> Container:
        return self.containers[self.owner[client]]

    # each word of a dialogue is a method: `do_<word>`

    def do_daemon(self, rest: list[str]) -> None:
        self.sessions = None
        self.gates.clear()
        if rest == ["gone"]:
            return
        words = decode(" ".join(["daemon", *rest]).encode()).words
        rules = Rules(
            policy=POLICIES[words.get("policy", "rr")],
            quantum=int(words["quantum_ms"]) / 1000,
            grace=int(words.get("grace_ms", "5000")) / 1000,
            announce=int(words.get("announce_ms", "2000")) / 1000,
            hush=0.0,
            keep=int(words.get("idle_ms", "5")) / 1000,
            side_by_side=words.get("side_by_side", "when-it-fits") != "never",
        )
        until = self.now + rules.announce + rules.grace
        before = {gpu: dict(holders) for gpu, holders in self.footprint.items() if holders}
        turns = Turns(
            rules,
            epoch=words["epoch"],
            left_behind=lambda gpu: (until, before[gpu]) if gpu in before else nobody_before(gpu),
        )
        self.sessions = Sessions(turns, self)

    def do_container(self, rest: list[str]) -> None:
        words = decode(" ".join(["container", *rest[1:]]).encode()).words
        self.containers[rest[0]] = Container(
            key=rest[0],
            gpus=tuple(words["gpus"].split(",")),
            mode=Mode(words["mode"]),
            weight=int(words.get("weight", "100")),
            priority=int(words.get("priority", "0")),
            memory=int(words["memory"]) if "memory" in words else None,
        )

    def do_process(self, rest: list[str]) -> None:
        name, _, container = rest
        client = len(self.owner) + 1
        self.clients[name], self.owner[client] = client, container
        self.running.connected(client, self.now)
        self.carry_out()

    def do_gate(self, rest: list[str]) -> None:
        container, gpu, state = rest
        if (self.gates[container, gpu] != 0) != (state == "open"):
            raise BrokenDialogue(f"the gate of {container} on {gpu} is not {state}")

    def pass_time(self, milliseconds: int) -> None:
        until = round(self.now + milliseconds / 1000, 6)
        while (alarm := self.running.turns.next_alarm()) <= until:
            self.now = max(self.now, alarm)
            self.running.turns.wake(self.now)
            self.carry_out()
        self.now = until

    def say(self, name: str, text: str) -> None:
        self.running.received(self.clients[name], text.encode() + b"\n", self.now)
        self.carry_out()

    def leave(self, name: str) -> None:
        self.running.gone(self.clients[name], self.now)
        self.carry_out()

    def hear(self, name: str, text: str) -> None:
        wanted = decode(text.encode())
        if not self.inbox[name]:
            raise BrokenDialogue(f"{name} hears nothing")
        heard = self.inbox[name].popleft()
        if heard.verb != wanted.verb or not wanted.words.items() <= heard.words.items():
            raise BrokenDialogue(f"{name} hears {encode(heard).decode().strip()}")

    @property
    def running(self) -> Sessions:
        assert self.sessions is not None
        return self.sessions

    def carry_out(self) -> None:
        for order in self.running.take_orders():
            self._carry_out(order)

    def _carry_out(self, order: Order) -> None:
        names = {client: name for name, client in self.clients.items()}
        if isinstance(order, Tell):
            for client in order.to:
                self.inbox[names[client]].append(decode(codec.write(order.message)))
        elif isinstance(order, Admit):
            self.inbox[names[order.client]].append(decode(codec.write(order.welcome)))
        elif isinstance(order, SetGate):
            self.gates[order.container, order.gpu] = order.word
            self.footprint[order.gpu][order.container] = order.pids
            if not order.pids:
                del self.footprint[order.gpu][order.container]
        elif isinstance(order, Accounted):
            del self.footprint[order.gpu][order.container]
        elif isinstance(order, Hangup):
            self.running.gone(order.client, self.now)

    def nothing_unheard(self) -> None:
        for name, lines in self.inbox.items():
            if lines:
                raise BrokenDialogue(f"{name} hears, unsaid: {encode(lines[0]).decode().strip()}")


def replay(path: Path) -> int:
    """Return the number of steps that the core took as the dialogue says."""
    stage, steps = Stage(), 0
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        try:
            _step(stage, line)
        except Exception as error:
            raise BrokenDialogue(f"{path.name}:{number}: {line}: {error}") from error
        steps += 1
    stage.nothing_unheard()
    return steps


def _step(stage: Stage, line: str) -> None:
    head, *rest = line.split()
    text = " ".join(rest)
    if not head.endswith("<"):
        stage_is_quiet = head in ("container", "gate") or head.endswith("!")
        if not stage_is_quiet:
            stage.nothing_unheard()
    if head == "@":
        stage.pass_time(int(rest[0].removesuffix("ms")))
    elif head.endswith(">"):
        stage.say(head[:-1], text)
    elif head.endswith("<"):
        stage.hear(head[:-1], text)
    elif rest == ["gone"] and head != "daemon":
        stage.leave(head)
    elif not head.endswith("!"):
        getattr(stage, f"do_{head}")(rest)

"""The conversations: bytes of connections in, orders for the shell out; everything between is decided here.

The rule it owns: what a connection may say when (`hello` first, once, in time), and that whatever it says, the answer
is a sentence and the others notice nothing.  Does no I/O: the clock and what the cluster knows arrive as arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from contract import wire as numbers
from contract.grammar import Mode
from contract.line import LONGEST, Line
from contract.shared_memory import LEDGER_SLOTS
from schedulerd.core import messages
from schedulerd.core.model import UNKNOWN, Admit, Ask, Container, Hangup, Order, Tell
from schedulerd.core.turns import Turns
from schedulerd.errors import HelloAgain, NoHello, NotYours, Refused, TooLong, TooMany
from schedulerd.policies import FOREVER, Seconds
from schedulerd.protocol import codec

MOST_OF_A_FOLDER = 2 * LEDGER_SLOTS
"""Connections; it may have half as many processes, and each may come again before its old one is known to be gone."""
USUAL_VERBS: dict[type, str] = {messages.Want: "want", messages.Done: "done"}


class Registry(Protocol):
    """Where containers are known from: the cluster, or what the client says of itself."""

    def find(self, client: int, hello: messages.Hello) -> Container | None:
        """The container, or None when the answer comes later; may refuse."""


@dataclass(slots=True)
class Conversation:
    """One connection."""

    client: int
    folder: str = ""
    peer: int = UNKNOWN
    buffer: bytes = b""
    hello: messages.Hello | None = None
    welcomed: bool = False
    errors: int = 0
    closing: bool = False


class Desk:
    """All conversations and the core behind them."""

    def __init__(self, turns: Turns, registry: Registry) -> None:
        self.turns = turns
        self.registry = registry
        self.conversations: dict[int, Conversation] = {}
        self.between: Callable[[], None] = lambda: None
        """Called after each line of several; the shell carries out what was decided up to there."""
        self.refusals: dict[str, int] = {}
        self._crowds: dict[str, int] = {}
        """Connections by the folder that they came through."""
        self._strangers: dict[int, Seconds] = {}
        """Who has not said hello, and since when; in the order they came."""
        self._handlers: dict[type, Callable[..., None]] = {
            messages.Want: self._want,
            messages.Done: turns.done,
            messages.Using: turns.using,
            messages.Reserve: turns.reserve,
        }

        self.take_orders = turns.take_orders
        """What the shell is to do; in this order."""

    def _order(self, order: Order) -> None:
        self.turns.grants.orders.append(order)

    # ------------------------------------------------------------------ connections

    def connected(self, client: int, now: Seconds, *, folder: str = "", peer: int = UNKNOWN) -> None:
        """Begin a conversation, by an allocation's own socket or by everybody's, with the process `peer`."""
        one = self.conversations[client] = Conversation(client, folder, peer)
        self._strangers[client] = now
        crowd = self._crowds[folder] = self._crowds.get(folder, 0) + 1
        if len(self.conversations) > numbers.MOST_CONNECTIONS:
            self._refuse(one, TooMany("there is no room for another connection"), "")
        elif folder and crowd > MOST_OF_A_FOLDER:
            self._refuse(one, TooMany(f"a container has at most {MOST_OF_A_FOLDER} connections"), "")

    def gone(self, client: int, now: Seconds) -> None:
        """A connection has ended, or its process has died."""
        self._strangers.pop(client, None)
        one = self.conversations.pop(client, None)
        if one is not None:
            one.closing = True
            self._crowds[one.folder] -= 1
            if not self._crowds[one.folder]:
                del self._crowds[one.folder]
            self.turns.leave(client, now)

    def next_stranger_alarm(self) -> Seconds:
        """When the one that has been silent longest must be hung up on."""
        for since in self._strangers.values():
            return since + numbers.HELLO_SECONDS
        return FOREVER

    def hang_up_on_silent(self, now: Seconds) -> None:
        """Hang up on those that have not said hello in time."""
        while self.next_stranger_alarm() <= now:
            client = next(iter(self._strangers))
            del self._strangers[client]
            self._refuse(self.conversations[client], NoHello(f"no hello within {numbers.HELLO_SECONDS} s"), "")

    def received(self, client: int, data: bytes, now: Seconds) -> None:
        """Bytes have come from a connection."""
        one = self.conversations.get(client)
        if one is None or one.closing:
            return
        lines = (one.buffer + data if one.buffer else data).split(b"\n")
        one.buffer = lines.pop()
        for line in lines:
            if one.closing:
                return
            self._line(one, line, now)
            if line is not lines[-1]:
                self.between()  # a grant goes out before the next line is looked at
        if len(one.buffer) >= LONGEST and not one.closing:
            self._refuse(one, TooLong(f"{LONGEST} bytes without a newline"), "")

    def _line(self, one: Conversation, raw: bytes, now: Seconds) -> None:
        usual = codec.read_usual(raw) if one.welcomed else None
        if usual is None:
            self._unusual_line(one, raw, now)
            return
        kind = type(usual)
        try:
            self._handlers[kind](one.client, usual, now)
        except Refused as error:
            self._refuse(one, error, USUAL_VERBS[kind])

    def _unusual_line(self, one: Conversation, raw: bytes, now: Seconds) -> None:
        verb = ""
        try:
            if len(raw) >= LONGEST:
                raise TooLong(f"a line of {len(raw) + 1} bytes")
            line = codec.split(raw)
            verb = line.verb
            if one.welcomed:
                message = codec.read(line)
                self._dispatch(one, message, now)
                codec.remember(raw, message)  # only now: a want of GPUs that it does not have is refused
            else:
                self._greet(one, line, now)
        except Refused as error:
            self._refuse(one, error, verb)

    def _dispatch(self, one: Conversation, message: messages.Request, now: Seconds) -> None:
        if type(message) is messages.Hello:
            raise HelloAgain("hello was said already")
        self._handlers[type(message)](one.client, message, now)

    def _refuse(self, one: Conversation, error: Refused, verb: str) -> None:
        self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
        one.errors += 1
        self._order(Tell((one.client,), messages.Complaint(error.code, str(error), verb)))
        if error.closes or one.errors >= numbers.MOST_ERRORS:
            one.closing = True
            one.buffer = b""
            self._order(Hangup(one.client))

    # ------------------------------------------------------------------ hello

    def _greet(self, one: Conversation, line: Line, now: Seconds) -> None:
        if line.verb != "hello":
            raise NoHello("say hello first")
        if one.hello is not None:
            raise HelloAgain("hello was said already; the welcome is on its way")
        message = codec.read(line)
        assert isinstance(message, messages.Hello)
        container = self.registry.find(one.client, message)
        if container is None:
            one.hello = message
            self._strangers.pop(one.client, None)
            self._order(Ask(one.client, message))
        else:
            self._admit(one, message, container, now)

    def identified(self, client: int, container: Container, now: Seconds) -> None:
        """What the cluster knows of a container has come, or the wait for it is over."""
        one = self.conversations.get(client)
        if one is None or one.closing or one.welcomed or one.hello is None:
            return
        try:
            self._admit(one, one.hello, container, now)
        except Refused as error:
            one.hello = None
            self._refuse(one, error, "hello")

    def turned_away(self, client: int, error: Refused) -> None:
        """Whom the lookup did not confirm."""
        one = self.conversations.get(client)
        if one is not None and not one.closing:
            one.hello = None
            self._refuse(one, error, "hello")

    def _admit(self, one: Conversation, hello: messages.Hello, container: Container, now: Seconds) -> None:
        tenant = self.turns.tenants.get(container.key)
        facts = container if tenant is None else tenant.facts
        foreign = [gpu for gpu in hello.gpus if gpu not in facts.gpus]
        if foreign:
            raise NotYours(f"{foreign[0]} was not given to this container; it has {', '.join(facts.gpus)}")
        slot = self.turns.join(one.client, container, pid=hello.pid, peer=one.peer)
        self._strangers.pop(one.client, None)
        one.hello, one.welcomed = hello, True
        self._order(Admit(one.client, self._welcome(one.client, facts, slot)))
        for held, alone in ((hello.holding, True), (hello.beside, False)):
            mine = tuple(each for each in held if each.gpu in facts.gpus)
            self.turns.announce(one.client, mine, now, alone=alone)
        self.turns.came_back(one.client, now)

    def _welcome(self, client: int, facts: Container, slot: int) -> messages.Welcome:
        rules = self.turns.rules
        return messages.Welcome(
            client=client,
            epoch=self.turns.grants.epoch,
            container=facts.key,
            mode=facts.mode,
            gpus=facts.gpus,
            slot=slot,
            memory=facts.memory,
            allocation=facts.allocation,
            on_loss=facts.on_loss,
            announce_ms=round(rules.announce * 1000),
            grace_ms=round(rules.grace * 1000),
            flight_ms=numbers.FLIGHT_MS,
        )

    # ------------------------------------------------------------------ verbs

    def _want(self, client: int, message: messages.Want, now: Seconds) -> None:
        self.turns.want(client, message.gpus, now)


def believed(hello: messages.Hello) -> Container:
    """The container that a stand-alone client says it is."""
    usual = Container(key=hello.container or f"pid-{hello.pid}", gpus=hello.gpus)
    return replace(
        usual,
        mode=hello.mode or (Mode.SINGLE if len(hello.gpus) == 1 else Mode.PER_DEVICE),
        weight=hello.weight or usual.weight,
        priority=hello.priority or usual.priority,
        quantum=None if hello.quantum_ms is None else hello.quantum_ms / 1000,
        memory=hello.memory,
        allocation=hello.allocation or usual.allocation,
        on_loss=hello.on_loss or usual.on_loss,
    )

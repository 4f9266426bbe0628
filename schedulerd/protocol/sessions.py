"""The sessions of connections: bytes of connections come in, orders for the shell go out.

The rule it owns: which line a connection may send when (`hello` first, once, in time).  Whatever it sends, the answer
is a sentence, and other connections notice nothing.  No I/O: the clock and the cluster's answers are arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from contract.wire import numbers
from contract.wire.line import LONGEST, Line
from contract.wire.shared_memory import LEDGER_SLOTS
from contract.words.grammar import Mode
from schedulerd.core import card_size, messages
from schedulerd.core.model import UNKNOWN, Admit, Ask, Container, Hangup, Order, Tell, usual_allocation
from schedulerd.core.turns import Turns
from schedulerd.errors import HelloAgain, NoHello, NotYours, Refused, TooLong, TooMany
from schedulerd.policies import FOREVER, Seconds
from schedulerd.protocol import codec

MAX_CONNECTIONS_OF_A_FOLDER = 2 * LEDGER_SLOTS
"""A container may have half as many processes.  Each may connect again before the end of its old one is seen."""
USUAL_VERBS: dict[type, str] = {messages.Want: "want", messages.Done: "done"}


def _nothing() -> None:
    """Do nothing between two lines."""


class Registry(Protocol):
    """A source of containers: the allocations' folders, or the client's own words."""

    def find(self, client: int, hello: messages.Hello) -> Container | None:
        """Return the container, or None if the answer comes later.  A client can be refused."""


@dataclass(slots=True)
class Session:
    """The state of one connection."""

    client: int
    folder: str = ""
    peer: int = UNKNOWN
    buffer: bytes = b""
    hello: messages.Hello | None = None
    welcomed: bool = False
    errors: int = 0
    closing: bool = False


class Sessions:
    """All sessions, and the core behind them."""

    def __init__(self, turns: Turns, registry: Registry) -> None:
        self.turns = turns
        self.registry = registry
        self.by_client: dict[int, Session] = {}
        self.refusals: dict[str, int] = {}
        self._crowds: dict[str, int] = {}
        """By folder: the number of connections that came through it."""
        self._strangers: dict[int, Seconds] = {}
        """By client that has not said hello: since when, in the order of arrival."""
        self._handlers: dict[type, Callable[..., None]] = {
            messages.Want: self._want,
            messages.Done: turns.done,
            messages.Using: turns.using,
            messages.Reserve: turns.reserve,
        }

        self.take_orders = turns.take_orders
        """Returns the orders for the shell, in the order in which it carries them out."""

    def _order(self, order: Order) -> None:
        self.turns.grants.orders.append(order)

    # ------------------------------------------------------------------ connections

    def connected(self, client: int, now: Seconds, *, folder: str = "", peer: int = UNKNOWN) -> None:
        """Begin a session with the process `peer`.

        `folder` names the allocation whose socket it came through; it is empty for the shared socket.
        """
        one = self.by_client[client] = Session(client, folder, peer)
        self._strangers[client] = now
        crowd = self._crowds[folder] = self._crowds.get(folder, 0) + 1
        if len(self.by_client) > numbers.MAX_CONNECTIONS:
            self._refuse(one, TooMany(f"the daemon has {numbers.MAX_CONNECTIONS} connections and takes no more"), "")
        elif folder and crowd > MAX_CONNECTIONS_OF_A_FOLDER:
            self._refuse(one, TooMany(f"a container has at most {MAX_CONNECTIONS_OF_A_FOLDER} connections"), "")

    def gone(self, client: int, now: Seconds) -> None:
        """End a session whose connection has ended or whose process has died."""
        self._strangers.pop(client, None)
        one = self.by_client.pop(client, None)
        if one is not None:
            one.closing = True
            self._crowds[one.folder] -= 1
            if not self._crowds[one.folder]:
                del self._crowds[one.folder]
            self.turns.leave(client, now)

    def next_stranger_alarm(self) -> Seconds:
        """Return when the connection that has been silent longest must be closed."""
        for since in self._strangers.values():
            return since + numbers.HELLO_SECONDS
        return FOREVER

    def hang_up_on_silent(self, now: Seconds) -> None:
        """Close the connections that have not said hello in time."""
        while self.next_stranger_alarm() <= now:
            client = next(iter(self._strangers))
            del self._strangers[client]
            self._refuse(self.by_client[client], NoHello(f"no hello came within {numbers.HELLO_SECONDS} s"), "")

    def received(self, client: int, data: bytes, now: Seconds, between: Callable[[], None] = _nothing) -> None:
        """Handle bytes of a connection; call `between` after each line of several, to carry out its orders."""
        one = self.by_client.get(client)
        if one is None or one.closing:
            return
        lines = (one.buffer + data if one.buffer else data).split(b"\n")
        one.buffer = lines.pop()
        for line in lines:
            if one.closing:
                return
            self._line(one, line, now)
            if line is not lines[-1]:
                between()  # a grant goes out before the next line is looked at
        if len(one.buffer) >= LONGEST and not one.closing:
            self._refuse(one, TooLong(f"{LONGEST} bytes came without a newline"), "")

    def _line(self, one: Session, raw: bytes, now: Seconds) -> None:
        usual = codec.read_usual(raw) if one.welcomed else None
        if usual is None:
            self._unusual_line(one, raw, now)
            return
        kind = type(usual)
        try:
            self._handlers[kind](one.client, usual, now)
        except Refused as error:
            self._refuse(one, error, USUAL_VERBS[kind])

    def _unusual_line(self, one: Session, raw: bytes, now: Seconds) -> None:
        verb = ""
        try:
            if len(raw) >= LONGEST:
                raise TooLong(f"a line has {len(raw) + 1} bytes. At most {LONGEST} are allowed")
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

    def _dispatch(self, one: Session, message: messages.ClientMessage, now: Seconds) -> None:
        if type(message) is messages.Hello:
            raise HelloAgain("hello was said already on this connection")
        self._handlers[type(message)](one.client, message, now)

    def _refuse(self, one: Session, error: Refused, verb: str, *, wait: bool = False) -> None:
        self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
        one.errors += 1
        self._order(Tell((one.client,), messages.Complaint(error.code, str(error), verb, wait)))
        if error.closes or one.errors >= numbers.MAX_ERRORS:
            one.closing = True
            one.buffer = b""
            self._order(Hangup(one.client))

    # ------------------------------------------------------------------ hello

    def _greet(self, one: Session, line: Line, now: Seconds) -> None:
        if line.verb != "hello":
            raise NoHello("the first line must be hello")
        if one.hello is not None:
            raise HelloAgain("hello was said already on this connection. Wait for the welcome")
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
        """Admit a client whose container is known now, or whose wait for the cluster is over."""
        one = self.by_client.get(client)
        if one is None or one.closing or one.welcomed or one.hello is None:
            return
        try:
            self._admit(one, one.hello, container, now)
        except Refused as error:
            one.hello = None
            self._refuse(one, error, "hello")

    def turned_away(self, client: int, error: Refused, *, wait: bool) -> None:
        """Refuse a client whose pod could not be verified.  With `wait` the cluster may yet say otherwise."""
        one = self.by_client.get(client)
        if one is not None and not one.closing:
            one.hello = None
            self._refuse(one, error, "hello", wait=wait)

    def _admit(self, one: Session, hello: messages.Hello, told: Container, now: Seconds) -> None:
        container = self.turns.containers.get(told.key)
        facts = told if container is None else container.facts
        foreign = [gpu for gpu in hello.gpus if gpu not in facts.gpus]
        if foreign:
            raise NotYours(f"{foreign[0]} was not given to this container. It has {', '.join(facts.gpus)}")
        slot = self.turns.join(one.client, told, pid=hello.pid, peer=one.peer)
        self._strangers.pop(one.client, None)
        one.hello, one.welcomed = hello, True
        self._order(Admit(one.client, self._welcome(one.client, facts, slot)))
        for held, alone in ((hello.holding, True), (hello.shared, False)):
            mine = tuple(each for each in held if each.gpu in facts.gpus)
            self.turns.announce(one.client, mine, now, alone=alone)
        self.turns.came_back(one.client, now)
        card_size.hear_process(self.turns, one.client, dict(zip(hello.gpus, hello.card_bytes, strict=False)), now)

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
            alone_flight_ms=round(rules.alone_flight * 1000),
        )

    # ------------------------------------------------------------------ verbs

    def _want(self, client: int, message: messages.Want, now: Seconds) -> None:
        self.turns.want(client, message.gpus, now)


def believed(hello: messages.Hello) -> Container:
    """Return the container that a stand-alone client says it is."""
    usual = Container(key=hello.container or f"pid-{hello.pid}", gpus=hello.gpus)
    return replace(
        usual,
        mode=hello.mode or (Mode.SINGLE if len(hello.gpus) == 1 else Mode.PER_DEVICE),
        weight=hello.weight or usual.weight,
        priority=hello.priority or usual.priority,
        quantum=None if hello.quantum_ms is None else hello.quantum_ms / 1000,
        memory=hello.memory,
        allocation=hello.allocation or usual_allocation(hello.gpus),
        on_loss=hello.on_loss or usual.on_loss,
    )

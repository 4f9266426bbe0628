"""The clients' sockets: accept connections, hand their lines to the desk, carry out its orders.

The rule it owns: a gate's word is written before the lines that name its turn, and all orders of one event are carried
out before the next event.  It decides nothing about turns.  All connections of an allocation's socket share a budget.
"""

import logging
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from schedulerd.core.in_flight import count_told
from schedulerd.core.messages import Hello
from schedulerd.core.model import Accounted, Admit, Ask, FreeSlot, Hangup, Notice, SetGate, Tell
from schedulerd.errors import Unusable
from schedulerd.eventloop.acceptor import Acceptor
from schedulerd.eventloop.connection import Broken, Connection, Deaf
from schedulerd.eventloop.loop import Loop, Seconds
from schedulerd.eventloop.process_watch import ProcessWatch
from schedulerd.eventloop.throttle import Throttle
from schedulerd.policies import FOREVER
from schedulerd.protocol import codec
from schedulerd.protocol.budget import CONNECTION, NO_LIMITS, Budget, lines_in
from schedulerd.protocol.sessions import Sessions
from schedulerd.server.shared_memory import SharedMemory

log = logging.getLogger(__name__)

_ACCEPT_AT_ONCE = 64
_BACKLOG = 4096
_SELDOM: Seconds = 1.0
_LOOK_EVERY: Seconds = 1.0
_GONE = select.EPOLLHUP | select.EPOLLERR


class Listener:
    """A listening socket, and the budget of the container that it belongs to."""

    def __init__(self, listening: socket.socket, folder: str, loop: Loop) -> None:
        self.socket = listening
        self.folder = folder
        self.budget = Budget() if folder else Budget(NO_LIMITS)
        self._loop = loop

    def pause(self) -> None:
        """Accept no connection for now."""
        self._loop.change(self.socket.fileno(), 0)

    def go_on(self) -> None:
        """Accept again."""
        if self.socket.fileno() >= 0:
            self._loop.change(self.socket.fileno(), select.EPOLLIN)


def _ignore(*_: object) -> None:
    """Do nothing: nobody wants to hear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """The functions that the server calls; each belongs to another part, and is called in the turn loop."""

    gate_set: Callable[[str, str, tuple[int, ...]], None] = _ignore
    """(GPU, container, pids): the gate's word has changed for these processes; on the path of every hand-off."""
    connected: Callable[[int, int], None] = _ignore
    """(client, pid): a connection has come."""
    gone: Callable[[int], None] = _ignore
    """(client): a connection has ended."""
    noticed: Callable[[Notice], None] = _ignore
    """Something happened that an operator should hear of."""
    asked: Callable[[Connection, Hello], None] = _ignore
    """The container behind a connection must be looked up."""


SILENT = Listeners()


class Server:
    """Clients' connections and containers' shared memory."""

    def __init__(self, loop: Loop, sessions: Sessions, listeners: Listeners = SILENT) -> None:
        self.loop = loop
        self.sessions = sessions
        self.connections: dict[int, Connection] = {}
        self.memories: dict[str, SharedMemory] = {}
        self._listeners = listeners
        self._gate_set = listeners.gate_set
        self.throttle = Throttle(loop)
        self.limits_reached: dict[str, int] = {}
        """How often a container had to wait, or a client was hung up on, by the limit that was reached."""
        self._processes = ProcessWatch(loop, self._died)
        self._acceptor = Acceptor()
        self._last_client = 0
        self._silent_until: Seconds = 0.0
        self._look_at: Seconds = 0.0
        self._carry: dict[type, Callable[..., None]] = {
            Tell: self._tell,
            SetGate: self._set_gate,
            Accounted: lambda order: self._gate_set(order.gpu, order.container, ()),
            FreeSlot: self._free_slot,
            Admit: self._admit,
            Hangup: self._hang_up,
            Ask: self._ask,
            Notice: listeners.noticed,
        }
        loop.add_alarm(sessions.turns.next_alarm, sessions.turns.wake)
        loop.add_alarm(sessions.next_stranger_alarm, sessions.hang_up_on_silent)
        loop.add_alarm(self._next_look, self._look_at_ledgers)
        loop.call_after_each(self.carry_out)

    # ------------------------------------------------------------------ listening

    def listen(self, listening: socket.socket, folder: str = "") -> None:
        """Accept clients from a listening socket."""
        listening.setblocking(False)
        listener = Listener(listening, folder, self.loop)
        self.loop.watch(listening.fileno(), lambda _mask: self._accept(listener))

    def stop_listening(self, listening: socket.socket) -> None:
        """Accept no more connections from it."""
        self.loop.close(listening.detach())

    def _accept(self, listener: Listener) -> None:
        budget = listener.budget
        for _ in range(_ACCEPT_AT_ONCE):
            if budget.round != self.loop.rounds:
                budget.begin_round(self.loop.rounds, self.loop.clock)
            if budget.left_this_round <= 0:
                if budget.is_used_up:
                    self._postpone(budget, listener, listener.folder)
                return
            accepted = self._acceptor.next(listener.socket)
            if accepted is None:
                return
            budget.spend(CONNECTION)
            self._connected(accepted, listener)

    def _connected(self, accepted: socket.socket, listener: Listener) -> None:
        self._last_client += 1
        client = self._last_client
        connection = Connection(client, accepted, self.loop, listener.folder, listener.budget)
        connection.shrink_send_buffer()
        self.connections[client] = connection
        self.loop.watch(connection.descriptor, partial(self._ready, connection))
        pid, _ = connection.peer()
        self._listeners.connected(client, pid)
        self._processes.follow(connection, pid)
        self.sessions.connected(client, self.loop.clock(), folder=listener.folder, peer=pid)

    # ------------------------------------------------------------------ events

    def _ready(self, connection: Connection, mask: int) -> None:
        budget = connection.budget
        if budget.round != self.loop.rounds:
            budget.begin_round(self.loop.rounds, self.loop.clock)
        if budget.left_this_round <= 0:
            self._not_now(connection, mask)
            return
        try:
            data = connection.receive()
        except Broken:
            self._lost(connection)
            return
        if data is not None:
            budget.spend(lines_in(len(data)))
        if connection.closing:
            if connection.drained:
                self._lost(connection)
        elif data is not None:
            self._hand_over(connection, data)

    def _not_now(self, connection: Connection, mask: int) -> None:
        """Leave a connection alone whose container has used up its lines: of this round, or of its budget."""
        if not connection.budget.is_used_up:
            return
        if mask & _GONE:
            self._lost(connection)  # its end is an answer to whatever it was asked, so what it said last may be lost
        elif not connection.paused:
            self._postpone(connection.budget, connection, connection.folder)
        elif mask & select.EPOLLOUT:
            self._write_what_waits(connection)

    def _write_what_waits(self, connection: Connection) -> None:
        try:
            connection.flush()
        except Broken:
            self._lost(connection)
            return
        if connection.closing and connection.drained:
            self._lost(connection)

    def _postpone(self, budget: Budget, source: Connection | Listener, folder: str) -> None:
        if self.throttle.postpone(budget, source):
            self._count("lines")
            self._say_seldom(f"{folder} says more than {budget.limits.lines_a_second:.0f} lines a second: it must wait")

    def _hand_over(self, connection: Connection, data: bytes) -> None:
        try:
            self.sessions.received(connection.client, data, self.loop.clock(), self.carry_out)
        except Exception:
            # A fault of ours; it must cost this client its connection, not everybody theirs.
            log.exception("client %d is disconnected: its line met a fault of ours", connection.client)
            self._lost(connection)

    def _died(self, client: int) -> None:
        connection = self.connections.get(client)
        if connection is not None:
            self._lost(connection)

    def _lost(self, connection: Connection) -> None:
        if self.connections.pop(connection.client, None) is not None:
            container = self.sessions.turns.members.get(connection.client)
            if container is not None:
                self._look_at_ledger(container.facts.key, self.loop.clock())
            self._processes.forget(connection.client)
            connection.close()
            self._listeners.gone(connection.client)
            self.sessions.gone(connection.client, self.loop.clock())

    # ------------------------------------------------------------------ orders

    def carry_out(self) -> None:
        """Carry out the desk's orders; a client that turns out to be gone may add more."""
        carry = self._carry
        while orders := self.sessions.take_orders():
            for order in orders:
                carry[type(order)](order)

    def _tell(self, order: Tell) -> None:
        data = codec.write(order.message)
        for client in order.to:
            connection = self.connections.get(client)
            if connection is None:
                continue
            try:
                connection.send(data)
            except Broken as error:
                self._broken(connection, error)

    # ------------------------------------------------------------------ time in flight

    def _next_look(self) -> Seconds:
        """Return when the ledgers must be read next: once a second while any container has a turn."""
        return self._look_at if self.sessions.turns.grants.turns else FOREVER

    def _look_at_ledgers(self, now: Seconds) -> None:
        self._look_at = now + _LOOK_EVERY
        for key in {turn.container.facts.key for turn in self.sessions.turns.grants.turns.values()}:
            self._look_at_ledger(key, now)

    def _look_at_ledger(self, key: str, now: Seconds) -> None:
        memory, container = self.memories.get(key), self.sessions.turns.containers.get(key)
        if memory is None or container is None:
            return
        slots = {process: memory.in_flight(slot) for process, slot in container.processes.items()}
        for gpu in container.facts.gpus:
            count_told(container, gpu, {process: told[gpu] for process, told in slots.items()}, now)

    # ------------------------------------------------------------------ turns and memory

    def _set_gate(self, order: SetGate) -> None:
        self._gate_set(order.gpu, order.container, order.pids)
        memory = self.memories.get(order.container)
        if memory is not None:
            memory.set_word(order.gpu, order.word)

    def _free_slot(self, order: FreeSlot) -> None:
        if order.container not in self.sessions.turns.containers:
            memory = self.memories.pop(order.container, None)
            if memory is not None:
                memory.close()
        elif order.container in self.memories:
            self.memories[order.container].own_slot(order.slot, 0)

    def _admit(self, order: Admit) -> None:
        connection = self.connections.get(order.client)
        if connection is None:
            return
        welcome = order.welcome
        memory = self.memories.get(welcome.container)
        try:
            if memory is None:
                memory = self.memories[welcome.container] = SharedMemory(welcome.container, welcome.gpus)
            memory.own_slot(welcome.slot, order.client)
            connection.send_with(codec.write(welcome), (memory.gate, memory.ledger))
        except OSError as error:
            self._say_seldom(f"client {order.client} is hung up on: there is nothing left for its gate: {error}")
            self._lost(connection)
        except Broken as error:
            self._broken(connection, error)

    def _broken(self, connection: Connection, error: Broken) -> None:
        if isinstance(error, Deaf):
            self._count(error.limit)
            self._say_seldom(f"client {connection.client} of {connection.folder or 'all'} is hung up on: {error}")
        else:
            log.info("client %d is gone: %s", connection.client, error)
        self._lost(connection)

    def _count(self, limit: str) -> None:
        self.limits_reached[limit] = self.limits_reached.get(limit, 0) + 1

    def _say_seldom(self, sentence: str) -> None:
        """Log a warning, at most one a second: such events come many times a second."""
        now = self.loop.clock()
        if now >= self._silent_until:
            self._silent_until = now + _SELDOM
            log.warning("%s", sentence)

    def _hang_up(self, order: Hangup) -> None:
        self.hang_up(order.client)

    def hang_up(self, client: int) -> None:
        """Close a connection once it has read what was written to it."""
        connection = self.connections.get(client)
        if connection is None:
            return
        connection.closing = True
        if connection.drained:
            self._lost(connection)

    def _ask(self, order: Ask) -> None:
        connection = self.connections.get(order.client)
        if connection is not None:
            self._listeners.asked(connection, order.hello)


def bind(path: Path, mode: int) -> socket.socket:
    """Return a socket that listens at a path; replace one that a daemon left behind, not one that answers."""
    if _answers(path):
        raise Unusable(f"another daemon answers on {path}. Stop it, or choose another path.")
    coming = path.with_name(f".{path.name}")
    listener: socket.socket | None = None
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # It appears under its name only when it answers: whoever waits for it may connect at once.
        coming.unlink(missing_ok=True)
        listener.bind(str(coming))
        coming.chmod(mode)
        listener.listen(_BACKLOG)
        coming.replace(path)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise Unusable(f"cannot listen on {path}: {error}. Create its folder, or choose another path.") from None
    return listener


def _answers(path: Path) -> bool:
    """Return whether a daemon listens there.  A folder without access counts as no: listening then fails by itself."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(path)) == 0
    except OSError:  # a path too long for a socket, no descriptor left
        return False

"""The turn loop's sockets: accepts clients, feeds the desk, carries out its orders.

Owns the order in which things become visible: gate words before the lines that speak of them, and everything of one
event before the next event.  Decides nothing about turns.
May import this room's cores, the loop, connections, lives and gates.
"""

import logging
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from schedulerd.core.messages import Hello
from schedulerd.core.model import Accounted, Admit, Ask, FreeSlot, Hangup, Notice, SetGate, Tell
from schedulerd.errors import Unusable
from schedulerd.eventloop.acceptor import Door
from schedulerd.eventloop.connection import Broken, Connection
from schedulerd.eventloop.loop import Loop, Seconds
from schedulerd.eventloop.process_watch import Lives
from schedulerd.protocol import codec
from schedulerd.protocol.sessions import Desk
from schedulerd.server.shared_memory import SharedMemory

log = logging.getLogger(__name__)

_ACCEPT_AT_ONCE = 64
_BACKLOG = 4096
_SELDOM: Seconds = 1.0


class Server:
    """Clients' connections and containers' shared memory."""

    def __init__(self, loop: Loop, desk: Desk) -> None:
        self.loop = loop
        self.desk = desk
        self.connections: dict[int, Connection] = {}
        self.memories: dict[str, SharedMemory] = {}
        self.on_ask: Callable[[Connection, Hello], None] = lambda _connection, _hello: None
        self.on_gate: Callable[[str, str, tuple[int, ...]], None] = lambda _gpu, _container, _pids: None
        self.on_peer: Callable[[int, int], None] = lambda _client, _pid: None
        self.on_gone: Callable[[int], None] = lambda _client: None
        self.on_notice: Callable[[Notice], None] = lambda _notice: None
        self._listeners: dict[int, socket.socket] = {}
        self._lives = Lives(loop, self._died)
        self._door = Door()
        self._last_client = 0
        self._silent_until: Seconds = 0.0
        self._carry: dict[type, Callable[..., None]] = {
            Tell: self._tell,
            SetGate: self._set_gate,
            Accounted: lambda order: self.on_gate(order.gpu, order.container, ()),
            FreeSlot: self._free_slot,
            Admit: self._admit,
            Hangup: self._hang_up,
            Ask: self._ask,
            Notice: lambda notice: self.on_notice(notice),
        }
        loop.add_alarm(desk.turns.next_alarm, desk.turns.wake)
        loop.add_alarm(desk.next_stranger_alarm, desk.hang_up_on_silent)
        loop.after = desk.between = self.carry_out

    # ------------------------------------------------------------------ listening

    def listen(self, listener: socket.socket, folder: str = "") -> None:
        """Accept clients from a listening socket."""
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self.loop.watch(listener.fileno(), lambda _mask: self._accept(listener, folder))

    def stop_listening(self, listener: socket.socket) -> None:
        """Accept nobody from it any more."""
        self._listeners.pop(listener.fileno(), None)
        self.loop.close(listener.detach())

    def _accept(self, listener: socket.socket, folder: str) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            accepted = self._door.next(listener)
            if accepted is None:
                return
            self._connected(accepted, folder)

    def _connected(self, accepted: socket.socket, folder: str) -> None:
        self._last_client += 1
        client = self._last_client
        connection = Connection(client, accepted, self.loop, folder)
        self.connections[client] = connection
        self.loop.watch(connection.descriptor, partial(self._ready, connection))
        pid, _ = connection.peer()
        self.on_peer(client, pid)
        self._lives.follow(connection, pid)
        self.desk.connected(client, self.loop.clock(), folder=folder)

    # ------------------------------------------------------------------ events

    def _ready(self, connection: Connection, _mask: int) -> None:
        try:
            data = connection.receive()
        except Broken:
            self._lost(connection)
            return
        if connection.closing:
            if connection.drained:
                self._lost(connection)
        elif data is not None:
            self._hand_over(connection, data)

    def _hand_over(self, connection: Connection, data: bytes) -> None:
        try:
            self.desk.received(connection.client, data, self.loop.clock())
        except Exception:
            # A fault of ours; it must cost this client its connection, not everybody theirs.
            log.exception("client %d is hung up on: what it said broke something here", connection.client)
            self._lost(connection)

    def _died(self, client: int) -> None:
        connection = self.connections.get(client)
        if connection is not None:
            self._lost(connection)

    def _lost(self, connection: Connection) -> None:
        if self.connections.pop(connection.client, None) is not None:
            self._lives.forget(connection.client)
            connection.close()
            self.on_gone(connection.client)
            self.desk.gone(connection.client, self.loop.clock())

    # ------------------------------------------------------------------ orders

    def carry_out(self) -> None:
        """Do what the desk has decided; a client that turns out to be gone may lead to more."""
        carry = self._carry
        while orders := self.desk.take_orders():
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
                log.info("client %d is gone: %s", client, error)
                self._lost(connection)

    def _set_gate(self, order: SetGate) -> None:
        self.on_gate(order.gpu, order.container, order.pids)
        memory = self.memories.get(order.container)
        if memory is not None:
            memory.set_word(order.gpu, order.word)

    def _free_slot(self, order: FreeSlot) -> None:
        if order.container not in self.desk.turns.tenants:
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
            log.info("client %d is gone before its welcome: %s", order.client, error)
            self._lost(connection)

    def _say_seldom(self, sentence: str) -> None:
        """Once a second: it comes again twenty times a second, and so do the others."""
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
            self.on_ask(connection, order.hello)


def bind(path: Path, mode: int) -> socket.socket:
    """A listening unix socket at a path; one that a daemon left behind is replaced, one that answers is not."""
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
        raise Unusable(f"cannot listen on {path}: {error}. Make its folder, or choose another path.") from None
    return listener


def _answers(path: Path) -> bool:
    """A folder that may not be looked into answers nothing: listening in it then fails with its own sentence."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(path)) == 0
    except OSError:  # a path too long for a socket, no descriptor left
        return False

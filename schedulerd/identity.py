"""Who a client is: the allocation whose socket it could reach, and what the cluster says of that allocation.

The rule it owns: a container's GPUs come from its folder alone; the cluster adds pod, weight, priority and caps, and
the welcome waits for them at most two seconds.  What was once said of an allocation holds while the cluster is silent.
May import this room's cores and shells, and the contract.
"""

import logging
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contract.line import Line
from contract.paths import SOCKET_NAME
from contract.wire import IDENTITY_SECONDS
from schedulerd import steering
from schedulerd.allocation import Allocation, describe, read_allocation, read_pod, write_pod
from schedulerd.connection import Connection
from schedulerd.errors import NotYours, Unusable
from schedulerd.inotify import watch_folder
from schedulerd.messages import Hello
from schedulerd.model import Container
from schedulerd.node import Node, PodFacts
from schedulerd.policies import FOREVER, Seconds
from schedulerd.server import Server, bind

log = logging.getLogger(__name__)

_FOR_EVERY_USER = 0o666
_LOOK_AGAIN: Seconds = 10.0
"""A folder that was missed all the same is found then."""
_POD_UID = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


@dataclass(slots=True)
class Waiting:
    """A client whose welcome waits for the cluster."""

    client: int
    allocation: Allocation
    until: Seconds


@dataclass(slots=True)
class Listening:
    """A folder we listen in."""

    listener: socket.socket
    inode: int


class Folders:
    """The allocations' folders and the clients that came through them."""

    def __init__(self, folder: Path, server: Server, node: Node, ask: Callable[[Line], int]) -> None:
        self.folder = folder
        self.server = server
        self.node = node
        self.ask = ask
        self._listening: dict[str, Listening] = {}
        self._waiting: list[Waiting] = []
        self._known: dict[str, Allocation] = {}
        self._look_at: Seconds = 0.0
        self._watch: int | None = None

    # ------------------------------------------------------------------ following the folders

    def start(self) -> None:
        """Listen in every folder there is, and in those that come."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._watch = watch_folder(self.folder)
        except OSError as error:
            raise Unusable(
                f"cannot follow {self.folder}: {error.strerror}. Choose another with --allocations."
            ) from None
        loop = self.server.loop
        loop.watch(self._watch, self._changed)
        loop.add_alarm(lambda: self._look_at, self._look)
        loop.add_alarm(self._next_deadline, self._give_up)
        self._look(loop.clock())

    def _changed(self, _mask: int) -> None:
        assert self._watch is not None
        while True:
            try:
                os.read(self._watch, 65536)
            except BlockingIOError:
                break
        self._look(self.server.loop.clock())

    def _look(self, now: Seconds) -> None:
        """Bring what we listen to up to date with what is there."""
        self._look_at = now + _LOOK_AGAIN
        there = _folders(self.folder)
        for name in [one for one, have in self._listening.items() if there.get(one) != have.inode]:
            self.server.stop_listening(self._listening.pop(name).listener)
        for name in there.keys() - self._listening.keys():
            self._listen(name, there[name])

    def _listen(self, name: str, inode: int) -> None:
        path = self.folder / name / SOCKET_NAME
        try:
            listener = bind(path, _FOR_EVERY_USER)
        except Unusable as error:
            log.warning("%s", error)
            return
        self.server.listen(listener, name)
        self._listening[name] = Listening(listener, inode)

    def stop(self) -> None:
        """Take our sockets out of the folders."""
        for name in self._listening:
            (self.folder / name / SOCKET_NAME).unlink(missing_ok=True)

    # ------------------------------------------------------------------ who is it

    def find(self, client: int, _hello: Hello) -> Container | None:
        """The container behind a connection, or None while the cluster is asked."""
        connection = self.server.connections[client]
        folder = self.folder / connection.folder
        allocation = read_allocation(folder)
        self._known[allocation.container] = allocation
        facts = self.node.pods.get(allocation.container) or read_pod(folder, allocation)
        if facts is None:
            return None
        self.node.pods[allocation.container] = facts
        self._check_peer(connection, facts)
        return describe(allocation, facts)

    def _check_peer(self, connection: Connection, facts: PodFacts) -> None:
        """The second check: where the kernel shows us the process, its cgroup must be of that pod."""
        uid = pod_uid_of(connection.peer()[0])
        if facts.uid and uid is not None and uid != facts.uid:
            self.node.foreign += 1
            raise NotYours(f"this socket was given to a container of pod {facts.uid}, not of {uid}")

    def ask_cluster(self, connection: Connection, _hello: Hello) -> None:
        """The welcome waits: ask the observer, once an allocation."""
        allocation = read_allocation(self.folder / connection.folder)
        asked = any(one.allocation.container == allocation.container for one in self._waiting)
        until = self.server.loop.clock() + IDENTITY_SECONDS
        self._waiting.append(Waiting(connection.client, allocation, until))
        if not asked:
            self._ask(allocation)

    def _ask(self, allocation: Allocation) -> None:
        self.ask(Line("who", {"key": allocation.container, "devices": ",".join(allocation.device_ids)}))

    def observer_came(self) -> None:
        """Ask it whatever nobody has answered yet."""
        tenants = self.server.desk.turns.tenants
        unknown = [key for key in (*tenants, *(one.allocation.container for one in self._waiting))]
        for key in dict.fromkeys(unknown):
            if key in self._known and key not in self.node.pods:
                self._ask(self._known[key])

    def answered(self, key: str, facts: PodFacts) -> None:
        """The cluster has said who an allocation belongs to."""
        allocation = self._known.get(key)
        if allocation is None:
            return
        self.node.pods[key] = facts
        try:
            write_pod(self.folder / allocation.key, allocation, facts)
        except OSError as error:
            log.warning("cannot keep what the cluster said of %s: %s", key, error)
        container = describe(allocation, facts)
        self._update_those_welcomed(container)
        for one in [waiting for waiting in self._waiting if waiting.allocation.container == key]:
            self._waiting.remove(one)
            self._admit(one, facts)

    def _update_those_welcomed(self, container: Container) -> None:
        """A late answer: what the hook was told of caps may be wrong, so it is told anew."""
        tenant = self.server.desk.turns.tenants.get(container.key)
        if tenant is None:
            return
        before = tenant.facts
        steering.set_facts(self.server.desk.turns, container, self.server.loop.clock())
        if (before.memory, before.allocation, before.mode) != (container.memory, container.allocation, container.mode):
            for client in tuple(tenant.processes):
                self.server.hang_up(client)

    def _admit(self, waiting: Waiting, facts: PodFacts) -> None:
        connection = self.server.connections.get(waiting.client)
        if connection is None:
            return
        now = self.server.loop.clock()
        try:
            self._check_peer(connection, facts)
        except NotYours as error:
            self.server.desk.turned_away(waiting.client, error)
        else:
            self.server.desk.identified(waiting.client, describe(waiting.allocation, facts), now)

    def _next_deadline(self) -> Seconds:
        return self._waiting[0].until if self._waiting else FOREVER

    def _give_up(self, now: Seconds) -> None:
        while self._next_deadline() <= now:
            one = self._waiting.pop(0)
            log.warning("the cluster says nothing of %s: it goes on with the defaults", one.allocation.container)
            self._admit(one, PodFacts())


def pod_uid_of(pid: int) -> str | None:
    """The pod that a process runs in, by its cgroup; None where we cannot see it."""
    if pid <= 0:
        return None
    try:
        found = _POD_UID.search(Path(f"/proc/{pid}/cgroup").read_text())
    except OSError:
        return None
    return None if found is None else found.group(1).replace("_", "-")


def _folders(folder: Path) -> dict[str, int]:
    """The allocations that are there, with their folders' inodes; a name with a dot in front is not ready, or going."""
    found: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    found[entry.name] = entry.inode()
    except OSError as error:
        log.warning("cannot read %s: %s", folder, error)
    return found

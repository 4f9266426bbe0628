"""Who a client is: the allocation whose socket it could reach, and what the cluster says of that allocation.

The rule it owns: a container's GPUs come from its folder alone; the cluster adds pod, weight, priority and caps, and
the welcome waits for them at most two seconds.  What was once said of an allocation holds while the cluster is silent.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from contract.allocation import Allocation
from contract.line import Line
from contract.paths import SOCKET_NAME
from contract.wire import IDENTITY_SECONDS
from schedulerd.core import operator
from schedulerd.core.messages import Hello
from schedulerd.core.model import Container
from schedulerd.core.node_state import Node, PodFacts
from schedulerd.errors import NotYours, Unusable
from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.inotify import watch_folder
from schedulerd.identity.allocation import describe, read_allocation, read_pod, write_pod
from schedulerd.identity.lookups import Lookups
from schedulerd.policies import FOREVER, Seconds
from schedulerd.server.server import Server, bind

log = logging.getLogger(__name__)

_FOR_EVERY_USER = 0o666
_LOOK_AGAIN: Seconds = 10.0
"""A folder that was missed all the same is found then."""
_FORGET_AT_ONCE = 100
"""As many lines to the observer as it surely takes; the rest is forgotten at the next look."""
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


class AllocationRegistry:
    """The allocations' folders and the clients that came through them."""

    def __init__(self, folder: Path, server: Server, node: Node, tell: Callable[[Line], int]) -> None:
        self.folder = folder
        self.server = server
        self.node = node
        self.pod_of: Callable[[int], str | None] = pod_uid_of
        self._listening: dict[str, Listening] = {}
        self._waiting: list[Waiting] = []
        self._known: dict[str, Allocation] = {}
        self._current: dict[str, Allocation] = {}
        """By folder: what was last read there."""
        self._doubted: dict[str, set[int]] = {}
        """Clients that were refused by what was known, while the cluster did not confirm it."""
        self._foreign: dict[str, set[str]] = {}
        """Pods whose processes the cluster has confirmed to be none of the container's."""
        self.lookups = Lookups(tell, self._is_wanted)
        self._tell = tell
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
        self.server.sessions.turns.histories.kept = FOREVER  # as long as the folder is there
        loop = self.server.loop
        loop.watch(self._watch, self._changed)
        loop.add_alarm(lambda: self._look_at, self._look)
        loop.add_alarm(self._next_deadline, self._give_up)
        loop.add_alarm(lambda: self.lookups.next_alarm, self.lookups.put_due)
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
            self.server.sessions.turns.histories.forget_all_of(name)
        for name in there.keys() - self._listening.keys():
            self._listen(name, there[name])
        for key in self._gone(there):
            self._forget(key)

    def _listen(self, name: str, inode: int) -> None:
        path = self.folder / name / SOCKET_NAME
        try:
            listener = bind(path, _FOR_EVERY_USER)
        except Unusable as error:
            log.warning("%s", error)
            return
        self.server.listen(listener, name)
        self._listening[name] = Listening(listener, inode)

    def _gone(self, there: Mapping[str, int]) -> list[str]:
        """Containers whose folder has gone, or is another's now, and of which no process is here."""
        for name in self._current.keys() - there.keys():
            del self._current[name]
        current = {allocation.container for allocation in self._current.values()}
        gone = (key for key in self._known if key not in current and not self._is_wanted(key))
        return list(islice(gone, _FORGET_AT_ONCE))

    def _forget(self, key: str) -> None:
        books: tuple[MutableMapping[str, object], ...]
        books = (self._known, self.node.pods, self._doubted, self._foreign)  # type: ignore[assignment]  # only popped
        for book in books:
            book.pop(key, None)
        self.lookups.close(key)
        self._tell(Line("forget", {"key": key}))

    def stop(self) -> None:
        """Take our sockets out of the folders."""
        for name in self._listening:
            (self.folder / name / SOCKET_NAME).unlink(missing_ok=True)

    # ------------------------------------------------------------------ who is it

    def find(self, client: int, _hello: Hello) -> Container | None:
        """The container behind a connection, or None while the cluster is asked."""
        connection = self.server.connections[client]
        allocation = read_allocation(self.folder / connection.folder)
        self._known[allocation.container] = self._current[connection.folder] = allocation
        facts = self._last_said(allocation)
        if facts is None:
            return None
        if not facts.uid:
            self.lookups.put(allocation, self._pod_behind(connection), self.server.loop.clock())
        foreign = self._foreign_pod(connection, facts)
        if foreign is None:
            return describe(allocation, facts)
        if foreign in self._foreign.get(allocation.container, ()):
            raise self._not_yours(facts, foreign)
        return None  # what is known may be of an older pod of that name: asked once more

    def _last_said(self, allocation: Allocation) -> PodFacts | None:
        """What the cluster has said so far; without a uid it is not its last word."""
        facts = self.node.pods.get(allocation.container)
        if facts is None or not facts.uid:
            facts = read_pod(self.folder / allocation.key, allocation) or facts
        if facts is not None:
            self.node.pods[allocation.container] = facts
        return facts

    def _pod_behind(self, connection: Connection) -> str | None:
        return self.pod_of(connection.peer()[0])

    def _foreign_pod(self, connection: Connection, facts: PodFacts) -> str | None:
        """The second check: the pod that the process runs in, where the kernel shows us that it is not the socket's."""
        uid = self._pod_behind(connection) if facts.uid else None
        return None if uid == facts.uid else uid

    def _not_yours(self, facts: PodFacts, foreign: str) -> NotYours:
        self.node.foreign += 1
        return NotYours(f"this socket was given to a container of pod {facts.uid}, not of {foreign}")

    def ask_cluster(self, connection: Connection, _hello: Hello) -> None:
        """The welcome waits: ask the observer."""
        allocation = self._current[connection.folder]  # as `find` has just read it: the folder may be gone by now
        now = self.server.loop.clock()
        self._waiting.append(Waiting(connection.client, allocation, now + IDENTITY_SECONDS))
        self.lookups.put(allocation, self._pod_behind(connection), now)

    def observer_came(self) -> None:
        """Ask it whatever nobody has answered yet."""
        self.lookups.put_all(self.server.loop.clock())

    def _is_wanted(self, key: str) -> bool:
        return (
            key in self.server.sessions.turns.containers
            or any(one.allocation.container == key for one in self._waiting)
            or any(client in self.server.connections for client in self._doubted.get(key, ()))
        )

    def answered(self, key: str, facts: PodFacts) -> None:
        """The cluster has said who an allocation belongs to, or (without a uid) that it cannot say yet."""
        allocation = self._known.get(key)
        if allocation is None:
            return
        if facts.uid:
            self._learn(allocation, facts)
        elif facts.pod or key not in self.node.pods:
            self._learn_a_part(key, facts)
        for one in [waiting for waiting in self._waiting if waiting.allocation.container == key]:
            self._waiting.remove(one)
            self._admit(one)

    def _learn(self, allocation: Allocation, facts: PodFacts) -> None:
        """What holds from now on, for this daemon and the next."""
        key = allocation.container
        before = self.node.pods.get(key)
        self.node.pods[key] = facts
        self.lookups.close(key)
        if before != facts:
            self._keep(allocation, facts)
            self._update_those_welcomed(describe(allocation, facts))
        for client in (*self._doubted.pop(key, ()), *self._foreigners(key, facts)):
            self.server.hang_up(client)  # it comes again, and is judged by what is known now

    def _foreigners(self, key: str, facts: PodFacts) -> list[int]:
        """Clients that were let in while nothing was known, and should not have been."""
        container = self.server.sessions.turns.containers.get(key)
        inside = [self.server.connections.get(client) for client in (container.processes if container else ())]
        return [one.client for one in inside if one is not None and self._foreign_pod(one, facts) is not None]

    def _learn_a_part(self, key: str, facts: PodFacts) -> None:
        """For who reads the status; it is neither kept nor the last word."""
        if not self.node.pods.get(key, facts).uid:
            self.node.pods[key] = facts

    def _keep(self, allocation: Allocation, facts: PodFacts) -> None:
        if self._current.get(allocation.key) != allocation:
            return  # its slots were given out again, and what is kept there is the next one's
        try:
            write_pod(self.folder / allocation.key, allocation, facts)
        except OSError as error:
            log.warning("cannot keep what the cluster said of %s: %s", allocation.container, error)

    def _update_those_welcomed(self, facts: Container) -> None:
        """A late answer: what the hook was told of caps may be wrong, so it is told anew."""
        container = self.server.sessions.turns.containers.get(facts.key)
        if container is None:
            return
        turns, now, before = self.server.sessions.turns, self.server.loop.clock(), container.facts
        operator.set_facts(turns, facts, now)
        if (before.memory, before.allocation, before.mode) != (facts.memory, facts.allocation, facts.mode):
            operator.make_reconnect(turns, container, now)

    def _admit(self, waiting: Waiting) -> None:
        """By what is known now, were it nothing."""
        connection = self.server.connections.get(waiting.client)
        if connection is None:
            return
        key = waiting.allocation.container
        facts = self.node.pods.setdefault(key, PodFacts())
        foreign = self._foreign_pod(connection, facts)
        if foreign is None:
            container = describe(waiting.allocation, facts)
            self.server.sessions.identified(waiting.client, container, self.server.loop.clock())
            return
        if self.lookups.is_open(key):  # the cluster is silent: it is heard again when the cluster speaks
            self._doubted.setdefault(key, set()).add(waiting.client)
        else:  # it has just said so: from now on refused at once
            self._foreign.setdefault(key, set()).add(foreign)
        self.server.sessions.turned_away(waiting.client, self._not_yours(facts, foreign))

    def _next_deadline(self) -> Seconds:
        return self._waiting[0].until if self._waiting else FOREVER

    def _give_up(self, now: Seconds) -> None:
        while self._next_deadline() <= now:
            one = self._waiting.pop(0)
            log.warning("the cluster says nothing of %s: it goes on with the defaults", one.allocation.container)
            self._admit(one)


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

"""The identity of clients: the allocation whose socket a client could reach, and the cluster's facts of its pod.

The rule it owns: a container's GPUs come only from its folder.  The cluster adds pod, weight, priority and caps, and
the welcome waits for them at most two seconds.  Facts that were once told hold while the cluster does not answer.
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
from contract.wire.control import Forget, PodFacts, Who
from contract.wire.numbers import IDENTITY_SECONDS
from contract.words.paths import SOCKET_NAME
from schedulerd.core import operator
from schedulerd.core.messages import Hello
from schedulerd.core.model import Container
from schedulerd.core.node_state import Node
from schedulerd.errors import NotYours, Unusable
from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.inotify import watch_folder
from schedulerd.identity.allocation import describe, read_allocation, read_pod, write_pod
from schedulerd.identity.lookups import Lookups
from schedulerd.policies import FOREVER, Seconds
from schedulerd.protocol.sessions import Registry
from schedulerd.server.server import Server, bind

log = logging.getLogger(__name__)

_FOR_EVERY_USER = 0o666
_LOOK_AGAIN: Seconds = 10.0
"""A folder that inotify missed is found then."""
_FORGET_AT_ONCE = 100
"""The number of lines that the observer takes for sure.  The rest is forgotten at the next look."""
_POD_UID = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


Asked = Callable[[Connection, Hello], None]
"""Called for a client whose container must be looked up."""


@dataclass(slots=True)
class Waiting:
    """A client whose welcome waits for the cluster."""

    client: int
    allocation: Allocation
    until: Seconds


@dataclass(slots=True)
class Listening:
    """A folder with a listening socket of ours."""

    listener: socket.socket
    inode: int


class AllocationRegistry:
    """The registry of allocations: their folders, and the clients that came through them."""

    def __init__(
        self,
        folder: Path,
        node: Node,
        *,
        serve: Callable[[Registry, Asked], Server],
        tell: Callable[[Who | Forget], int],
        pod_of: Callable[[int], str | None] | None = None,
    ) -> None:
        self.folder = folder
        self.node = node
        self._pod_of = pod_of or pod_uid_of
        self._listening: dict[str, Listening] = {}
        self._waiting: list[Waiting] = []
        self._known: dict[str, Allocation] = {}
        self._current: dict[str, Allocation] = {}
        """By folder: the allocation that was last read there."""
        self._doubted: dict[str, set[int]] = {}
        """By container: clients that were refused by the known facts, before the cluster confirmed those facts."""
        self._foreign: dict[str, set[str]] = {}
        """By container: pods whose processes do not belong to it, as the cluster has confirmed."""
        self.lookups = Lookups(tell, self._is_wanted)
        self._tell = tell
        self._look_at: Seconds = 0.0
        self._watch: int | None = None
        self.server = serve(self, self.ask_cluster)
        """Made last: it asks this object for containers."""

    # ------------------------------------------------------------------ following the folders

    def start(self) -> None:
        """Listen in every folder, and in each folder that comes later."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._watch = watch_folder(self.folder)
        except OSError as error:
            raise Unusable(
                f"cannot watch {self.folder}: {error.strerror}. Choose another folder with --allocations."
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
        """Bring the listening sockets up to date with the folders."""
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
        """Return containers that have no folder of their own any more and no connected process."""
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
        self._tell(Forget(key))

    def stop(self) -> None:
        """Remove our sockets from the folders."""
        for name in self._listening:
            (self.folder / name / SOCKET_NAME).unlink(missing_ok=True)

    # ------------------------------------------------------------------ finding the container of a client

    def find(self, client: int, _hello: Hello) -> Container | None:
        """Return the container behind a connection, or None while the cluster is asked."""
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
        return None  # the known facts may be of an older pod of the same name: ask once more

    def _last_said(self, allocation: Allocation) -> PodFacts | None:
        """Return the facts that the cluster has told so far.  Without a uid they are not final."""
        facts = self.node.pods.get(allocation.container)
        if facts is None or not facts.uid:
            facts = read_pod(self.folder / allocation.key, allocation) or facts
        if facts is not None:
            self.node.pods[allocation.container] = facts
        return facts

    def _pod_behind(self, connection: Connection) -> str | None:
        return self._pod_of(connection.peer()[0])

    def _foreign_pod(self, connection: Connection, facts: PodFacts) -> str | None:
        """Do the second check: return the pod of the process if the kernel shows that it is not the socket's pod."""
        uid = self._pod_behind(connection) if facts.uid else None
        return None if uid == facts.uid else uid

    def _not_yours(self, facts: PodFacts, foreign: str) -> NotYours:
        self.node.foreign += 1
        return NotYours(
            f"this socket belongs to a container of the pod with uid {facts.uid}, but the process runs in the pod with"
            f" uid {foreign}"
        )

    def ask_cluster(self, connection: Connection, _hello: Hello) -> None:
        """Ask the observer for the facts that a client's welcome waits for."""
        allocation = self._current[connection.folder]  # `find` has just read it; the folder may be gone by now
        now = self.server.loop.clock()
        self._waiting.append(Waiting(connection.client, allocation, now + IDENTITY_SECONDS))
        self.lookups.put(allocation, self._pod_behind(connection), now)

    def observer_came(self) -> None:
        """Send all open lookups to an observer that has come."""
        self.lookups.put_all(self.server.loop.clock())

    def _is_wanted(self, key: str) -> bool:
        return (
            key in self.server.sessions.turns.containers
            or any(one.allocation.container == key for one in self._waiting)
            or any(client in self.server.connections for client in self._doubted.get(key, ()))
        )

    def answered(self, key: str, facts: PodFacts) -> None:
        """Handle the cluster's answer: the pod of an allocation, or (without a uid) that it is not known yet."""
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
        """Keep final facts, for this daemon and the next, and apply them to connected clients."""
        key = allocation.container
        before = self.node.pods.get(key)
        self.node.pods[key] = facts
        self.lookups.close(key)
        if before != facts:
            self._keep(allocation, facts)
            self._update_those_welcomed(describe(allocation, facts))
        for client in (*self._doubted.pop(key, ()), *self._foreigners(key, facts)):
            self.server.hang_up(client)  # it comes again, and the facts of now decide

    def _foreigners(self, key: str, facts: PodFacts) -> list[int]:
        """Return clients of another pod that were let in while nothing was known."""
        container = self.server.sessions.turns.containers.get(key)
        inside = [self.server.connections.get(client) for client in (container.processes if container else ())]
        return [one.client for one in inside if one is not None and self._foreign_pod(one, facts) is not None]

    def _learn_a_part(self, key: str, facts: PodFacts) -> None:
        """Keep facts without a uid for the status only.  They are not written to the folder and not final."""
        if not self.node.pods.get(key, facts).uid:
            self.node.pods[key] = facts

    def _keep(self, allocation: Allocation, facts: PodFacts) -> None:
        if self._current.get(allocation.key) != allocation:
            return  # its slots were given out again, and the file there belongs to the next container
        try:
            write_pod(self.folder / allocation.key, allocation, facts)
        except OSError as error:
            log.warning(
                "cannot write the facts of container %s into its folder: %s. They are lost when the daemon restarts",
                allocation.container,
                error,
            )

    def _update_those_welcomed(self, facts: Container) -> None:
        """Apply a late answer.  If it changes the welcome (cap, kind of memory, mode), the processes come again."""
        container = self.server.sessions.turns.containers.get(facts.key)
        if container is None:
            return
        turns, now, before = self.server.sessions.turns, self.server.loop.clock(), container.facts
        operator.set_facts(turns, facts, now)
        if (before.memory, before.allocation, before.mode) != (facts.memory, facts.allocation, facts.mode):
            operator.make_reconnect(turns, container, now)

    def _admit(self, waiting: Waiting) -> None:
        """Admit the waiting client with the facts that are known, even if there are none."""
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
        is_open = self.lookups.is_open(key)
        if is_open:  # the cluster does not answer: this is decided again when it does
            self._doubted.setdefault(key, set()).add(waiting.client)
        else:  # the cluster has just confirmed it: processes of that pod are refused at once from now on
            self._foreign.setdefault(key, set()).add(foreign)
        self.server.sessions.turned_away(waiting.client, self._not_yours(facts, foreign), wait=is_open)

    def _next_deadline(self) -> Seconds:
        return self._waiting[0].until if self._waiting else FOREVER

    def _give_up(self, now: Seconds) -> None:
        while self._next_deadline() <= now:
            one = self._waiting.pop(0)
            log.warning(
                "the cluster has not said in %d s which pod container %s belongs to. It runs with the defaults until"
                " the cluster answers",
                IDENTITY_SECONDS,
                one.allocation.container,
            )
            self._admit(one)


def pod_uid_of(pid: int) -> str | None:
    """Return the pod that a process runs in, by its cgroup; None where the cgroup cannot be read."""
    if pid <= 0:
        return None
    try:
        found = _POD_UID.search(Path(f"/proc/{pid}/cgroup").read_text())
    except OSError:
        return None
    return None if found is None else found.group(1).replace("_", "-")


def _folders(folder: Path) -> dict[str, int]:
    """Return the allocations with the inodes of their folders.

    A folder whose name begins with a dot is not ready, or about to be removed.
    """
    found: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    found[entry.name] = entry.inode()
    except OSError as error:
        log.warning("cannot read %s: %s", folder, error)
    return found

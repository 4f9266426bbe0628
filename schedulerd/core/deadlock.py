"""Deadlocks: find containers that wait for each other for ever (a jam), and take the jam apart.

Two per-device containers whose kernels need a partner on the other GPU would wait for ever: each holds a GPU and waits
for the GPU of the other.  The rule it owns: a cycle that has lasted `rules.jam` is asked to yield.  A cycle that has
not yielded `rules.probe` later is jammed: its kernels can only end together, so its containers become gangs for good.
The core looks only while some container holds a GPU and waits for another GPU.
"""

from collections.abc import Iterable

from schedulerd.core.grants import Grants
from schedulerd.core.messages import Revoked
from schedulerd.core.model import ContainerState, Notice, Stage, Tell, Turn
from schedulerd.policies import FOREVER, Seconds

_LOOK_EVERY: Seconds = 0.25


class DeadlockWatch:
    """The turns that are part of a cycle, and since when."""

    def __init__(self, grants: Grants) -> None:
        self.grants = grants
        self.alarm: Seconds = FOREVER
        self.count = 0
        self._since: dict[str, Seconds] = {}

    def waits(self, container: ContainerState, now: Seconds) -> None:
        """Begin to look if a container that has begun to wait could jam."""
        if self.alarm == FOREVER and could_jam(container):
            self.alarm = now + _LOOK_EVERY

    def look(self, containers: list[ContainerState], now: Seconds) -> list[tuple[ContainerState, ...]]:
        """Return the groups that are jammed, and ask the other cycles that have lasted long enough to yield."""
        suspects = [one for one in containers if could_jam(one)]
        self.alarm = now + _LOOK_EVERY if suspects else FOREVER
        seen: dict[str, Seconds] = {}
        jammed: list[tuple[ContainerState, ...]] = []
        for ring in cycles(suspects):
            turns = turns_between(ring)
            seen.update({turn.name: self._since.get(turn.name, now) for turn in turns})
            if turns and all(self._will_not_yield(turn, now) for turn in turns):
                jammed.append(ring)
            elif turns and all(now - seen[turn.name] >= self.grants.rules.jam for turn in turns):
                for turn in turns:
                    self.grants.ask(turn, now)
        self._since = seen
        return jammed

    def _will_not_yield(self, turn: Turn, now: Seconds) -> bool:
        rules = self.grants.rules
        if turn.name not in self._since or now - self._since[turn.name] < rules.jam:
            return False
        return turn.stage is Stage.YIELDING and now - (turn.deadline - rules.grace) >= rules.probe

    def take_apart(self, ring: tuple[ContainerState, ...], now: Seconds) -> dict[str, set[int]]:
        """End the turns of jammed containers and make them gangs.  Return the processes of each that have work."""
        self.count += 1
        waiting: dict[str, set[int]] = {}
        for container in ring:
            container.gang = True
            container.groups.clear()
            for turn in dict.fromkeys(container.turns.values()):
                self.grants.end(turn, now)
                self.grants.orders.append(Tell(tuple(container.processes), Revoked(turn.name, "jam")))
            requests = dict.fromkeys(container.requests.values())
            waiting[container.facts.key] = {process for request in requests for process in request.by}
            for request in requests:
                self.grants.drop(request)
        keys = tuple(container.facts.key for container in ring)
        gpus = tuple(dict.fromkeys(uuid for container in ring for uuid in container.facts.gpus))
        self.grants.orders.append(Notice("jam", keys, gpus))
        return waiting


def waits_for(container: ContainerState) -> list[Turn]:
    """Return the turns of other containers that this one waits for while it has GPUs of its own."""
    if container.gang or not container.turns or not container.requests:
        return []
    holders = (turn for request in container.requests.values() for gpu in request.gpus for turn in gpu.holders)
    return [turn for turn in holders if turn.container is not container and not turn.container.gang]


def could_jam(container: ContainerState) -> bool:
    """Return whether a container holds a GPU while it waits for another."""
    return not container.gang and bool(container.turns) and bool(container.requests)


def cycles(containers: Iterable[ContainerState]) -> list[tuple[ContainerState, ...]]:
    """Return the groups that wait for each other, directly or around a ring.  A container is in at most one."""
    edges = {id(one): [turn.container for turn in waits_for(one)] for one in containers}
    found: list[tuple[ContainerState, ...]] = []
    taken: set[int] = set()
    for one in containers:
        if id(one) in taken or not edges[id(one)]:
            continue
        ring = _ring_through(one, edges)
        if ring and not taken.intersection(map(id, ring)):
            found.append(ring)
            taken.update(map(id, ring))
    return found


def _ring_through(start: ContainerState, edges: dict[int, list[ContainerState]]) -> tuple[ContainerState, ...]:
    """Return the shortest ring through a container, or nothing if there is none."""
    ways: list[tuple[ContainerState, ...]] = [(start,)]
    seen: set[int] = set()
    for way in ways:  # grows while the search goes on
        for follower in edges.get(id(way[-1]), ()):
            if follower is start:
                return way
            if id(follower) not in seen:
                seen.add(id(follower))
                ways.append((*way, follower))
    return ()


def turns_between(ring: tuple[ContainerState, ...]) -> list[Turn]:
    """Return the turns in a ring that another member of the ring waits for."""
    members = set(map(id, ring))
    every = (turn for one in ring for turn in waits_for(one))
    return list(dict.fromkeys(turn for turn in every if id(turn.container) in members))

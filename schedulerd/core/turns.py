"""The events of containers and GPUs: one method for each event, with the clock as an argument.

The rule it owns: a turn belongs to a container.  `Grants` begins it.  It ends when each process that runs in it has
answered or gone, or when its grace has passed.  Plain values go in, orders come out.
"""

from collections.abc import Sequence

from contract.wire.shared_memory import LEDGER_SLOTS
from contract.words.grammar import AllocationKind, Mode
from schedulerd.core import in_flight, memory
from schedulerd.core.deadlock import DeadlockWatch
from schedulerd.core.grants import Grants
from schedulerd.core.history import Histories
from schedulerd.core.messages import Done, Held, Reserve, Reserved, Revoked, Using
from schedulerd.core.model import (
    UNKNOWN,
    Container,
    ContainerState,
    FreeSlot,
    Gpu,
    Group,
    Notice,
    Order,
    Request,
    Rules,
    Stage,
    Tell,
    Turn,
    grouped,
)
from schedulerd.core.recovery import LeftBehind, Returning, nobody_before
from schedulerd.core.usage import Share
from schedulerd.core.wait_queue import WaitQueue
from schedulerd.errors import NoMemory, NotYours, TooMany
from schedulerd.policies import FOREVER, Seconds, Snapshot

_MAX_GROUPS = 64
_FAR: Seconds = 1.0
"""A container that is less ahead of a GPU's clock than this needs no closer look.  Nearly all containers are."""


class Turns:
    """The connected containers, and the requests and turns on every GPU."""

    def __init__(self, rules: Rules, *, epoch: str, left_behind: LeftBehind = nobody_before) -> None:
        self.grants = Grants(rules, epoch=epoch, on_part=lambda container, now: self.deadlocks.waits(container, now))
        self.containers: dict[str, ContainerState] = {}
        self.members: dict[int, ContainerState] = {}
        self._left_behind = left_behind
        self._serial = 0
        self.histories = Histories()
        self.deadlocks = DeadlockWatch(self.grants)
        self.returning = Returning(self.grants, lambda container, gpus, now: self._request(set(), container, gpus, now))

    @property
    def rules(self) -> Rules:
        return self.grants.rules

    def take_orders(self) -> list[Order]:
        """Return and clear the orders since the last call.  The shell carries them out in this order."""
        orders = self.grants.orders
        if orders:
            self.grants.orders = []
        return orders

    def gpu(self, uuid: str) -> Gpu:
        """Return a GPU that is known; another name is a KeyError."""
        return self.grants.gpus[uuid]

    def add_gpu(self, uuid: str) -> Gpu:
        """Return the GPU of that name; where it is new, keep it from now on."""
        found = self.grants.gpus.get(uuid)
        if found is None:
            line: WaitQueue[Request] = WaitQueue(uuid, self.rules.policy)
            until, missing = self._left_behind(uuid)
            found = Gpu(uuid=uuid, queue=line, closed_until=until)
            found.missing = {key: list(pids) for key, pids in missing.items()}
            self.grants.gpus[uuid] = found
        return found

    # ------------------------------------------------------------------ coming and going

    def join(self, process: int, facts: Container, *, pid: int = UNKNOWN, peer: int = UNKNOWN) -> int:
        """Let in a process and return its ledger slot.  The process says its `pid`, the kernel says `peer`."""
        container = self.containers.get(facts.key)
        if container is None:
            container = self.containers[facts.key] = self._new_state(facts)
        elif not container.turns:
            container.must_reconnect = False  # this process gets an up-to-date welcome
        slot = _free_slot(container)
        container.processes[process] = slot
        container.pids[process] = pid
        container.roster = tuple(container.pids.values())
        container.peers[process] = peer or -process
        container.contexts = len(set(container.peers.values()))
        self.members[process] = container
        for uuid in container.facts.gpus:
            memory.recount(self.rules, self.gpu(uuid), container)
        return slot

    def _new_state(self, facts: Container) -> ContainerState:
        before = self.histories.take(facts.key)
        gang = facts.mode is Mode.GANG or (before is not None and before.gang)
        container = ContainerState(facts=facts, gang=gang)
        for uuid in facts.gpus:
            gpu = self.add_gpu(uuid)
            container.shares[gpu.uuid] = Share() if before is None else before.shares.get(uuid, Share())
            gpu.containers[facts.key] = container
        return container

    def announce(self, process: int, held: Sequence[Held], now: Seconds, *, alone: bool) -> None:
        """Accept the turns that a process still holds from a daemon that went away, or revoke them."""
        container = self.members[process]
        self.returning.join_turns(process, container, now)
        for name in dict.fromkeys(one.turn for one in held):
            gpus = self._own_gpus(container, tuple(dict.fromkeys(one.gpu for one in held if one.turn == name)))
            if not self.returning.goes_on(container, gpus, now, alone=alone):
                self.grants.orders.append(Tell((process,), Revoked(name, "overdue")))

    def came_back(self, process: int, now: Seconds) -> None:
        """Handle that a process has said all that it still holds."""
        container = self.members[process]
        self.returning.is_back(container, container.pids[process], now)
        self.returning.join_turns(process, container, now)

    def leave(self, process: int, now: Seconds) -> None:
        """Handle that a process has gone.  This counts as an answer to all that it was asked."""
        container = self.members.pop(process, None)
        if container is None:
            return
        slot = container.processes.pop(process)
        del container.pids[process], container.peers[process]
        container.roster = tuple(container.pids.values())
        container.contexts = len(set(container.peers.values()))
        self.grants.orders.append(FreeSlot(container.facts.key, slot))
        for request in set(container.requests.values()):
            request.by.discard(process)
            if not request.by:
                self.grants.drop(request)
                for gpu in request.gpus:
                    gpu.waited_at = now
        for turn in dict.fromkeys(container.turns.values()):
            if turn.processes_running.pop(process, None) is not None and not turn.processes_running:
                self._end(turn, now)
            else:
                self.grants.show(turn)
        for uuid in container.facts.gpus:
            self._forget_memory(self.gpu(uuid), container, process)
        if not container.processes:
            self._forget(container, now)
        self.grants.settle([self.gpu(uuid) for uuid in container.facts.gpus], now)

    def _forget_memory(self, gpu: Gpu, container: ContainerState, process: int) -> None:
        share = container.shares[gpu.uuid]
        share.forget(process)
        gpu.reserving.pop(process, None)
        memory.recount(self.rules, gpu, container)

    def _forget(self, container: ContainerState, now: Seconds) -> None:
        self.histories.keep(container.facts.key, container.shares, now, gang=container.gang)
        del self.containers[container.facts.key]
        for uuid in container.facts.gpus:
            del self.gpu(uuid).containers[container.facts.key]

    # ------------------------------------------------------------------ requests and answers

    def want(self, process: int, uuids: tuple[str, ...], now: Seconds) -> None:
        """Handle that a process has work for GPUs of its container."""
        container = self.members[process]
        for group in container.groups.get(uuids) or self._groups(container, uuids):
            self._want(process, container, group, now)

    def _groups(self, container: ContainerState, uuids: tuple[str, ...]) -> tuple[Group, ...]:
        """Return the sets that are granted together.  They are remembered, since programs repeat themselves."""
        named = self._own_gpus(container, uuids)
        if container.gang:
            groups: tuple[Group, ...] = (grouped(self._own_gpus(container, container.facts.gpus)),)
        else:
            groups = tuple(grouped((gpu,)) for gpu in named)
        if len(container.groups) < _MAX_GROUPS:
            container.groups[uuids] = groups
        return groups

    def _want(self, process: int, container: ContainerState, group: Group, now: Seconds) -> None:
        gpus, uuid = group.gpus, group.names[0]
        turn, request = container.turns.get(uuid), container.requests.get(uuid)
        if request is not None and request.gpus == gpus:
            request.by.add(process)
        elif turn is not None and turn.stage is Stage.RUNNING and turn.gpus == gpus:
            self.grants.add_process(turn, process, now)
        else:
            self._begin_to_wait({process}, container, group, now)

    def _begin_to_wait(self, processes: set[int], container: ContainerState, group: Group, now: Seconds) -> None:
        if container.requests:
            for old in {container.requests[uuid] for uuid in group.names if uuid in container.requests}:
                processes |= old.by  # requests from before the container was a gang
                self.grants.drop(old)
        self.grants.wait(self._request(processes, container, group, now), now)
        if container.turns:
            self.deadlocks.waits(container, now)

    def _request(self, processes: set[int], container: ContainerState, group: Group, now: Seconds) -> Request:
        self._serial += 1
        snapshots: dict[str, Snapshot] = {}
        gpus, names, together = group
        for gpu in gpus:
            snapshots[gpu.uuid] = self._snapshot(gpu, container, now)
        return Request(container, gpus, self._serial, now, processes, snapshots, names, together)

    def _snapshot(self, gpu: Gpu, container: ContainerState, now: Seconds) -> Snapshot:
        share, facts = container.shares[gpu.uuid], container.facts
        top = gpu.queue.top()
        # On the path of every hand-off.  The clock never goes beyond the first request in the queue.  A container that
        # is not behind that request is not behind the clock.  Nearly all containers that come from a turn are not.
        if top is None or not top.snapshots[gpu.uuid].virtual <= share.virtual <= gpu.clock + _FAR:
            self._hold_to_clock(gpu, container, now)
        return Snapshot(self._serial, facts.priority, facts.weight, share.virtual, share.expected_burst, gpu.grants)

    def _hold_to_clock(self, gpu: Gpu, container: ContainerState, now: Seconds) -> None:
        """Limit a container that begins to wait: not behind the clock, and at most one longest turn ahead of it."""
        share = container.shares[gpu.uuid]
        self._move_clock(gpu, now)
        if share.virtual < gpu.clock:
            share.virtual = gpu.clock
        elif share.virtual > gpu.clock + _FAR:
            share.virtual = min(share.virtual, gpu.clock + self._furthest_ahead(gpu, container))

    def _furthest_ahead(self, gpu: Gpu, container: ContainerState) -> Seconds:
        """Return how far ahead of the clock a container may be: one longest turn, which is paid back exactly.
        Time beyond that was taken from no container by this policy: others ran side by side, or another policy gave it.
        """
        return memory.longest_turn(self.rules, gpu, container) * 100 / container.facts.weight

    def _move_clock(self, gpu: Gpu, now: Seconds) -> None:
        """Move the clock to the least served container present, so that no other claims time when it was away."""
        top = gpu.queue.top()
        if top is not None and top.snapshots[gpu.uuid].virtual <= gpu.clock:
            return
        self.grants.accrue(gpu, now)
        least = FOREVER if top is None else top.snapshots[gpu.uuid].virtual
        for turn in gpu.holders:
            least = min(least, turn.container.shares[gpu.uuid].virtual)
        if gpu.clock < least < FOREVER:
            gpu.clock = least

    def done(self, process: int, answer: Done, now: Seconds) -> None:
        """Handle that a process has nothing in flight on a turn's GPUs."""
        turn = self.grants.turns.get(answer.turn)
        if turn is None or process not in turn.processes_running:
            return
        if answer.busy_us:
            in_flight.count_done(turn, process, answer.busy_us / 1e6, now)
        if answer.gpus is not None:
            turn.processes_running[process] = tuple(
                gpu for gpu in turn.processes_running[process] if gpu not in answer.gpus
            )
            if turn.processes_running[process]:
                return
        del turn.processes_running[process]
        if not turn.processes_running:
            self._end(turn, now, idle=answer.reason != "yield")

    def _end(self, turn: Turn, now: Seconds, *, idle: bool = False) -> None:
        self.grants.end(turn, now, idle=idle)
        self._settle_after(turn, now)

    def _settle_after(self, turn: Turn, now: Seconds) -> None:
        for gpu in turn.gpus:
            if gpu.reserving:
                self._answer_reserving(gpu)
        self.grants.settle(turn.gpus, now)

    # ------------------------------------------------------------------ memory

    def using(self, process: int, said: Using, now: Seconds) -> None:
        """Record the bytes that a process has allocated."""
        container = self.members[process]
        (gpu,) = self._own_gpus(container, (said.gpu,))
        share = container.shares[said.gpu]
        share.set_using(process, said.pageable, said.unpageable)
        self._tell_above_cap(gpu, container, said)
        if process in gpu.reserving:
            share.promise(process, gpu.reserving[process][1])  # its `reserve` is not answered yet
        memory.recount(self.rules, gpu, container)
        self._make_room(gpu, container, now)

    def _tell_above_cap(self, gpu: Gpu, container: ContainerState, said: Using) -> None:
        """Tell operators once that a process claims more than its container may have; `memory` counts only the cap.
        The sum of several may be above it for a moment: one frees, another allocates, and the second is heard first."""
        cap, share = container.facts.memory, container.shares[gpu.uuid]
        if cap is not None and said.pageable + said.unpageable > cap and not share.above_cap:
            share.above_cap = True
            self.grants.orders.append(Notice("above-cap", (container.facts.key,), (gpu.uuid,)))

    def reserve(self, process: int, asked: Reserve, now: Seconds) -> None:
        """Handle that a container is about to grow.  Its process gets `reserved` when there is room."""
        container = self.members[process]
        (gpu,) = self._own_gpus(container, (asked.gpu,))
        self._refuse_beyond(gpu, container, asked.bytes)
        container.shares[asked.gpu].promise(process, asked.bytes)
        memory.recount(self.rules, gpu, container)
        gpu.reserving[process] = (container, asked.bytes)
        self._make_room(gpu, container, now)
        self._answer_reserving(gpu)

    def _refuse_beyond(self, gpu: Gpu, container: ContainerState, size: int) -> None:
        cap = container.facts.memory
        if cap is not None and size > cap:
            raise NoMemory(f"{size} bytes are more than the container's memory cap of {cap} bytes")
        if gpu.capacity is None or container.facts.allocation is not AllocationKind.PLAIN:
            return
        others = gpu.pinned - container.shares[gpu.uuid].pinned
        if size + others > gpu.capacity:
            raise NoMemory(
                f"{size} bytes that cannot be paged out do not fit on the card: it has {gpu.capacity} bytes, and other"
                f" containers have {others} bytes of them that cannot be paged out"
            )

    def _make_room(self, gpu: Gpu, container: ContainerState, now: Seconds) -> None:
        """Ask all other holders to yield if the containers side by side have outgrown the card."""
        if gpu.uuid not in container.turns or len(gpu.holders) < 2 or memory.fits_beside(self.rules, gpu, container):
            return
        for turn in tuple(gpu.holders):
            if turn.container is not container:
                self.grants.ask(turn, now)

    def _answer_reserving(self, gpu: Gpu) -> None:
        rooms: dict[str, bool] = {}
        for process, (container, size) in tuple(gpu.reserving.items()):
            key = container.facts.key
            if key not in rooms:
                rooms[key] = self._has_room(gpu, container)
            if rooms[key]:
                del gpu.reserving[process]
                self.grants.orders.append(Tell((process,), Reserved(gpu.uuid, size)))

    def _has_room(self, gpu: Gpu, container: ContainerState) -> bool:
        alone = gpu.uuid not in container.turns or len(gpu.holders) == 1
        return alone or memory.fits_beside(self.rules, gpu, container)

    # ------------------------------------------------------------------ time

    def wake(self, now: Seconds) -> None:
        """Do all that is due: revoke overdue turns, and ask holders to yield when their quantum is over."""
        for gpu in [one for one in self.grants.gpus.values() if one.alarm <= now]:
            for turn in tuple(gpu.holders):
                if turn.deadline <= now and not in_flight.extend_deadline(self.rules, turn, now):
                    self._revoke(turn, now)
        self.grants.wake(now)
        if self.deadlocks.alarm <= now:
            self._look_for_jams(now)

    def _look_for_jams(self, now: Seconds) -> None:
        for ring in self.deadlocks.look(list(self.containers.values()), now):
            for key, processes in self.deadlocks.take_apart(ring, now).items():
                container = self.containers[key]
                for process in processes:
                    self.want(process, container.facts.gpus, now)
            self.grants.settle([self.gpu(uuid) for one in ring for uuid in one.facts.gpus], now)

    def _revoke(self, turn: Turn, now: Seconds) -> None:
        container = turn.container
        for gpu in turn.gpus:
            container.shares[gpu.uuid].overdue += 1
        key, names = container.facts.key, tuple(gpu.uuid for gpu in turn.gpus)
        # The gates close first.  Then the processes hear of it.  Only then are the GPUs granted to others.
        self.grants.end(turn, now)
        self.grants.orders.append(Tell(tuple(container.processes), Revoked(turn.name, turn.reason)))
        self.grants.orders.append(Notice("overdue", (key,), names))
        self._settle_after(turn, now)

    def next_alarm(self) -> Seconds:
        """Return when `wake` must be called next."""
        soonest, jam = self.grants.soonest, self.deadlocks.alarm
        return soonest if soonest < jam else jam

    def _own_gpus(self, container: ContainerState, uuids: Sequence[str]) -> tuple[Gpu, ...]:
        for uuid in uuids:
            if uuid not in container.shares:
                raise NotYours(f"{uuid} was not given to this container. It has {', '.join(container.facts.gpus)}")
        return tuple(self.grants.gpus[uuid] for uuid in uuids)


def _free_slot(container: ContainerState) -> int:
    taken = set(container.processes.values())
    if len(taken) >= LEDGER_SLOTS:
        raise TooMany(f"a container has at most {LEDGER_SLOTS} processes")
    return next(slot for slot in range(LEDGER_SLOTS) if slot not in taken)

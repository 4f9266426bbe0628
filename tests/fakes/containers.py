"""Run the turn core with containers around it that remember every order, for properties and simulations.

A `Floor` carries out the orders as the daemon's shell would.  After each event it checks what must never be.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from schedulerd.core.messages import Done, Grant, Held, Reserved, Revoked, Wanted, Yield
from schedulerd.core.model import (
    Accounted,
    Container,
    ContainerState,
    Gpu,
    Hangup,
    Notice,
    Order,
    Rules,
    SetGate,
    Stage,
    Tell,
)
from schedulerd.core.recovery import nobody_before
from schedulerd.core.turns import Turns


class Broken(AssertionError):
    """Something that must never be has been."""


@dataclass
class Seat:
    """What one process has heard: the turns it rides, and those it was asked to yield."""

    container: str
    facts: Container
    turns: dict[str, Grant] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    """The turns for which it has said `done`, and was not granted again since."""


@dataclass
class Away:
    """A process whose daemon has gone: it goes on with what it held, for a while."""

    facts: Container
    held: list[tuple[Held, bool]]
    """And whether alone."""
    until: float

    def has_alone(self, gpu: str, now: float) -> bool:
        return now < self.until and any(one.gpu == gpu and alone for one, alone in self.held)


class Floor:
    """Turns, and everybody who hears of them."""

    def __init__(self, rules: Rules, *, capacity: int | None = None, gpus: int = 4) -> None:
        self.turns = Turns(rules, epoch="0000000a")
        self.now = 0.0
        self.capacity = capacity
        for number in range(1, gpus + 1):
            self.turns.add_gpu(f"GPU-{number}").capacity = capacity
        self.seats: dict[int, Seat] = {}
        self.gates: dict[tuple[str, str], int] = {}
        self.exclusive: dict[tuple[str, str], bool] = {}
        """Of each open gate: whether its turn was granted alone."""
        self.notices: list[Notice] = []
        self.reserved: dict[int, int] = defaultdict(int)
        self.history: list[str] = []
        self._next_process = 0
        self.away: dict[int, Away] = {}
        self.footprint: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)

    # ------------------------------------------------------------------ events

    def join(self, container: Container, *, held: Sequence[Held] = (), alone: bool = True, peer: int = 0) -> int:
        self._next_process += 1
        process = self._next_process
        self.sit_down(process, container, peer=peer)
        self.turns.announce(process, held, self.now, alone=alone)
        self.turns.came_back(process, self.now)
        self.carry_out()
        return process

    def sit_down(self, process: int, container: Container, *, peer: int = 0) -> None:
        self.turns.join(process, container, pid=process, peer=peer)
        self.seats[process] = Seat(container.key, container)

    def restart(self) -> None:
        """End the daemon and start the next one; no container is asked, and holders go on for a while."""
        until = self.now + self.turns.rules.announce
        for process, seat in self.seats.items():
            turns = dict.fromkeys(self.turns.members[process].turns.values())
            riding = [turn for turn in turns if process in turn.processes_running]
            held = [(Held(turn.name, gpu), not turn.shared) for turn in riding for gpu in turn.names]
            self.away[process] = Away(seat.facts, held, until)
        for memory in (self.seats, self.gates, self.exclusive):
            memory.clear()
        before, shut = {gpu: dict(who) for gpu, who in self.footprint.items()}, until + self.turns.rules.grace
        gpus, number = tuple(self.turns.grants.gpus), int(self.turns.grants.epoch, 16) + 1
        self.turns = Turns(
            self.turns.rules,
            epoch=f"{number:08x}",
            left_behind=lambda gpu: (shut, before[gpu]) if before.get(gpu) else nobody_before(gpu),
        )
        for uuid in gpus:
            self.turns.add_gpu(uuid).capacity = self.capacity

    def come_back(self, process: int) -> None:
        """Tell the new daemon what a process still holds whose daemon had gone."""
        one = self.away.pop(process)
        self.sit_down(process, one.facts)
        for alone in (True, False):
            held = [each for each, was_alone in one.held if was_alone is alone and self.now < one.until]
            self.turns.announce(process, held, self.now, alone=alone)
        self.turns.came_back(process, self.now)
        self.carry_out()

    def leave(self, process: int) -> None:
        del self.seats[process]
        self.turns.leave(process, self.now)
        self.carry_out()

    def want(self, process: int, *gpus: str) -> None:
        self.turns.want(process, gpus, self.now)
        self.carry_out()

    def done(self, process: int, turn: str, reason: str = "yield") -> None:
        seat = self.seats[process]
        seat.turns.pop(turn, None)
        seat.asked.discard(turn)
        seat.answered.add(turn)
        self.turns.done(process, Done(turn, reason=reason), self.now)
        self.carry_out()

    def answer_yields(self) -> None:
        """Answer for every process that was asked to yield."""
        while asked := [(p, turn) for p, seat in self.seats.items() for turn in seat.asked]:
            self.done(*asked[0])

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (alarm := self.turns.next_alarm()) <= until:
            self.now = max(self.now, alarm)
            self.turns.wake(self.now)
            self.carry_out()
        self.now = until

    # ------------------------------------------------------------------ orders

    def carry_out(self) -> None:
        while orders := self.turns.take_orders():
            for order in orders:
                self.history.append(repr(order))
                self._carry_out(order)
        self.check()

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, SetGate):
            self.gates[order.container, order.gpu] = order.word
            self.footprint[order.gpu][order.container] = order.pids
            if not order.pids:
                del self.footprint[order.gpu][order.container]
            turn = self.turns.grants.turns.get(f"{self.turns.grants.epoch}.{order.word}")
            self.exclusive[order.container, order.gpu] = turn is not None and not turn.shared
            self._check_gates_of(order.gpu)
        elif isinstance(order, Accounted):
            del self.footprint[order.gpu][order.container]
        elif isinstance(order, Hangup):
            del self.seats[order.client]
            self.turns.leave(order.client, self.now)
        elif isinstance(order, Notice):
            self.notices.append(order)
        elif isinstance(order, Tell):
            for process in order.to:
                if process in self.seats:
                    self._hear(process, order.message)

    def _hear(self, process: int, message: object) -> None:
        seat = self.seats[process]
        if isinstance(message, Grant):
            seat.turns[message.turn] = message
            seat.answered.discard(message.turn)
        elif isinstance(message, Yield):
            seat.asked.add(message.turn)
        elif isinstance(message, Revoked):
            seat.turns.pop(message.turn, None)
            seat.asked.discard(message.turn)
        elif isinstance(message, Reserved):
            self.reserved[process] = message.bytes
        elif not isinstance(message, Wanted):
            raise Broken(f"unexpected {message}")

    # ------------------------------------------------------------------ what must always be

    def open_on(self, gpu: str) -> list[str]:
        return [container for (container, uuid), word in self.gates.items() if uuid == gpu and word]

    def _check_gates_of(self, gpu: str) -> None:
        """Check the gates at each single order, not only when all is settled."""
        containers = self.open_on(gpu)
        if len(containers) > 1 and any(self.exclusive[container, gpu] for container in containers):
            raise Broken(f"{containers} hold {gpu} at once")
        for process, one in self.away.items():
            if one.has_alone(gpu, self.now) and set(containers) - {one.facts.key}:
                raise Broken(f"{containers} hold {gpu}, on which process {process} of {one.facts.key} goes on")

    def check(self) -> None:
        for gpu in self.turns.grants.gpus.values():
            self._check_gpu(gpu)
        for container in self.turns.containers.values():
            self._check_gang(container)
            self._check_processes_running(container)
            self._check_no_idle_waiting(container)

    def _check_gpu(self, gpu: Gpu) -> None:
        holders = {turn.container.facts.key for turn in gpu.holders}
        if holders != set(self.open_on(gpu.uuid)):
            raise Broken(f"{gpu.uuid} is held by {holders}, its open gates are {self.open_on(gpu.uuid)}")
        if len(gpu.holders) > 1 and not all(turn.shared for turn in gpu.holders):
            raise Broken(f"{holders} hold {gpu.uuid}, not all side by side")
        if gpu.claim is not None and gpu.claim.serial not in gpu.queue.arrivals:
            raise Broken(f"a claim on {gpu.uuid} outlived its wish")
        needed = sum(container.shares[gpu.uuid].needed for container in gpu.containers.values())
        if needed != gpu.needed:
            raise Broken(f"{gpu.uuid} counts {gpu.needed} bytes, its containers have {needed}")

    def _check_gang(self, container: ContainerState) -> None:
        if not container.gang:
            return
        words = {self.gates.get((container.facts.key, uuid), 0) for uuid in container.facts.gpus}
        if len(words) > 1 and not any(len(turn.gpus) == 1 for turn in container.turns.values()):
            raise Broken(f"gang {container.facts.key} has a part of its GPUs: {words}")

    def _check_processes_running(self, container: ContainerState) -> None:
        """Check that a turn waits for each process that saw the gate open, however late it came.

        Such a process may have kernels in flight.
        """
        for turn in container.turns.values():
            for process in container.processes:
                if process not in turn.processes_running and turn.name not in self.seats[process].answered:
                    raise Broken(f"{turn.name} of {container.facts.key} would end without process {process}")

    def _check_no_idle_waiting(self, container: ContainerState) -> None:
        for request in container.requests.values():
            free = all(not gpu.holders and gpu.paused is None and gpu.claim in (None, request) for gpu in request.gpus)
            shut = container.must_reconnect or any(self.now < gpu.closed_until for gpu in request.gpus)
            if free and not shut:
                raise Broken(f"{container.facts.key} waits for {[gpu.uuid for gpu in request.gpus]}, which are free")

    def state(self) -> tuple[object, ...]:
        """Return the part of the state that decides what comes next, without names of turns and times."""
        gpus = tuple(
            (
                tuple((turn.container.facts.key, turn.stage is Stage.RUNNING, turn.told) for turn in gpu.holders),
                tuple(request.container.facts.key for request in gpu.queue.in_order()),
                gpu.claim.container.facts.key if gpu.claim else None,
                gpu.paused,
            )
            for gpu in self.turns.grants.gpus.values()
        )
        return gpus, tuple(sorted((key, len(one.processes)) for key, one in self.turns.containers.items()))

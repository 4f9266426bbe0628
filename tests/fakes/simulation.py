"""Containers with work to do, on the turn core, in simulated time: minutes pass in a second, every order is checked.

A worker is saturating (it always has kernels) or bursty (it computes, then rests).  Asked to yield, it answers when the
kernel in flight ends.  Every random choice comes from one seeded generator, so a run repeats exactly.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from contract.words.grammar import Mode
from schedulerd.core.messages import Grant, Revoked, Wanted, Yield
from schedulerd.core.model import Container, Rules
from tests.fakes.containers import Floor

FOREVER = float("inf")


@dataclass
class Worker:
    """One container with one process."""

    container: Container
    kernel: float = 0.005
    burst: float = FOREVER
    rest: float = 0.0
    deaf: bool = False
    """It never answers a yield."""
    process: int = 0
    asked_at: dict[str, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    held: float = 0.0
    turns: dict[str, float] = field(default_factory=dict)


def worker(key: str, *gpus: int, mode: Mode | None = None, **rest: Any) -> Worker:
    """Make a worker by its GPUs' numbers; several GPUs make a gang unless said otherwise."""
    facts = {name: rest.pop(name) for name in ("weight", "priority") if name in rest}
    usual = Mode.SINGLE if len(gpus) == 1 else Mode.GANG
    names = tuple(f"GPU-{number}" for number in gpus)
    return Worker(Container(key=key, gpus=names, mode=mode or usual, **facts), **rest)


class Simulation(Floor):
    """The floor with workers on it."""

    def __init__(self, rules: Rules, workers: list[Worker], *, gpus: int, seed: int = 1, **rest: Any) -> None:
        super().__init__(rules, gpus=gpus, **rest)
        self.random = random.Random(seed)
        self.agenda: list[tuple[float, float, Callable[[], object]]] = []
        self.workers: dict[int, Worker] = {}
        for one in workers:
            one.process = self.join(one.container)
            self.workers[one.process] = one
            self.at(self.random.uniform(0, 0.01), partial(self.ask, one))

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        heapq.heappush(self.agenda, (self.now + seconds, len(self.history) + self.random.random(), action))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            upcoming = min(self.agenda[0][0] if self.agenda else FOREVER, self.turns.next_alarm(), until)
            self.pass_time(max(0.0, upcoming - self.now))
            while self.agenda and self.agenda[0][0] <= self.now:
                heapq.heappop(self.agenda)[2]()
            if self.now >= until:
                return

    # ------------------------------------------------------------------ workers

    def ask(self, one: Worker) -> None:
        for gpu in one.container.gpus:
            one.asked_at.setdefault(gpu, self.now)
        self.want(one.process, *one.container.gpus)

    def _hear(self, process: int, message: object) -> None:
        super()._hear(process, message)
        one = self.workers.get(process)
        if one is None:
            return
        if isinstance(message, Grant):
            self._granted(one, message)
        elif isinstance(message, Yield) and not one.deaf:
            left = self.random.uniform(0, one.kernel)
            self.at(left, lambda: self.give(one, message.turn, "yield"))
        elif isinstance(message, Wanted) and one.turns.get(message.turn, FOREVER) <= self.now:
            self.at(0.005, lambda: self.give(one, message.turn, "idle"))
        elif isinstance(message, Revoked):
            self._over(one, message.turn)

    def _granted(self, one: Worker, grant: Grant) -> None:
        if grant.turn in one.turns:
            return
        one.turns[grant.turn] = self.now + one.burst
        for gpu in grant.gpus:
            if gpu in one.asked_at:
                one.waits.append(self.now - one.asked_at.pop(gpu))
        if one.burst < FOREVER:
            self.at(one.burst, lambda: self.finish(one, grant.turn))

    def finish(self, one: Worker, turn: str) -> None:
        """End the burst; a container that waits gets the GPU."""
        seat = self.seats[one.process]
        if turn in seat.turns and self.turns.grants.turns[turn].told:
            self.give(one, turn, "idle")

    def give(self, one: Worker, turn: str, reason: str) -> None:
        if turn not in self.seats[one.process].turns:
            return
        self.done(one.process, turn, reason)
        self._over(one, turn)

    def _over(self, one: Worker, turn: str) -> None:
        ended = one.turns.pop(turn, 0.0) <= self.now
        self.at(one.rest if ended else 0.0, lambda: self.ask(one))

    def held_seconds(self, key: str, gpu: str) -> float:
        self.turns.grants.accrue(self.turns.gpu(gpu), self.now)
        return self.turns.containers[key].shares[gpu].held

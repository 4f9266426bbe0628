"""Every move that clients, clocks and operators can make on the core.

Safety is checked after every single order by `containers.Floor`; promises that need a while stand in `teardown`.
"""

from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from contract.words.grammar import Mode
from schedulerd.core import operator
from schedulerd.core.messages import Held, Reserve, Using
from schedulerd.core.model import MIB, Container, Rules
from schedulerd.errors import NoMemory
from schedulerd.policies import POLICIES
from tests.fakes.containers import Broken, Floor

GIB = 1024 * MIB
UUIDS = [f"GPU-{number}" for number in range(1, 5)]
FIRST_EPOCH = "0000000a"
VISITED: set[tuple[object, ...]] = set()


containers = st.builds(
    lambda key, gpus, mode, weight, priority: Container(
        key=key,
        gpus=tuple(sorted(gpus)),
        mode=Mode.SINGLE if len(gpus) == 1 else mode,
        weight=weight,
        priority=priority,
    ),
    st.sampled_from("abcdefgh"),
    st.sets(st.sampled_from(UUIDS), min_size=1, max_size=4),
    st.sampled_from([Mode.GANG, Mode.PER_DEVICE]),
    st.sampled_from([50, 100, 200, 400]),
    st.integers(0, 2),
)


class Scheduler(RuleBasedStateMachine):
    """Every move that anybody can make."""

    capacity: int | None = None
    has_lied = False
    """Whom lies gave a GPU, nobody can keep apart over a restart."""

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        side_by_side=st.booleans(),
        first=st.lists(containers, min_size=3, max_size=8, unique_by=lambda one: one.key),
    )
    def begin(self, policy: str, side_by_side: bool, first: list[Container]) -> None:
        rules = Rules(policy=POLICIES[policy], side_by_side=side_by_side)
        self.floor = Floor(rules, capacity=16 * GIB)
        self.facts: dict[str, Container] = {}
        for container in first:
            self.join_as(container)

    def process(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.floor.seats)))

    @rule(container=containers)
    def join(self, container: Container) -> None:
        self.join_as(container)

    def join_as(self, container: Container) -> None:
        facts = self.facts.setdefault(container.key, container)
        if len(self.floor.seats) < 16:
            self.floor.join(facts)

    @precondition(lambda self: self.floor.turns.grants.epoch == FIRST_EPOCH)
    @rule(container=containers, data=st.data(), alone=st.booleans())
    def join_holding(self, container: Container, data: st.DataObject, alone: bool) -> None:
        """Join with turns of an earlier daemon, though there was none."""
        self.has_lied = True
        facts = self.facts.setdefault(container.key, container)
        gpus = st.builds(Held, st.sampled_from(["0000000f.1", "0000000f.2"]), st.sampled_from(facts.gpus))
        if len(self.floor.seats) < 16:
            self.floor.join(facts, held=data.draw(st.lists(gpus, max_size=5)), alone=alone)

    @precondition(lambda self: self.floor.seats)
    @rule(data=st.data())
    def want(self, data: st.DataObject) -> None:
        process = self.process(data)
        gpus = self.facts[self.floor.seats[process].container].gpus
        self.floor.want(process, *data.draw(st.sets(st.sampled_from(gpus), min_size=1)))

    @rule()
    def everybody_wants(self) -> None:
        for process, seat in tuple(self.floor.seats.items()):
            self.floor.want(process, *self.facts[seat.container].gpus)

    @precondition(lambda self: any(seat.turns for seat in self.floor.seats.values()))
    @rule(data=st.data(), reason=st.sampled_from(["yield", "idle"]))
    def done(self, data: st.DataObject, reason: str) -> None:
        riding = [(p, turn) for p, seat in self.floor.seats.items() for turn in seat.turns]
        self.floor.done(*data.draw(st.sampled_from(riding)), reason=reason)

    @precondition(lambda self: self.floor.seats)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.floor.leave(self.process(data))

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.1, 0.3, 1.0, 5.0]))
    def pass_time(self, seconds: float) -> None:
        self.floor.pass_time(seconds)

    @rule()
    def everybody_yields(self) -> None:
        self.floor.answer_yields()

    @precondition(lambda self: self.floor.seats)
    @rule(data=st.data(), size=st.integers(0, 20 * GIB), reserve=st.booleans())
    def memory(self, data: st.DataObject, size: int, reserve: bool) -> None:
        process = self.process(data)
        gpu = data.draw(st.sampled_from(self.facts[self.floor.seats[process].container].gpus))
        try:
            if reserve:
                self.floor.turns.reserve(process, Reserve(gpu, size), self.floor.now)
            else:
                self.floor.turns.using(process, Using(gpu, size, 0), self.floor.now)
        except NoMemory:
            pass
        self.floor.carry_out()

    @rule(gpu=st.sampled_from(UUIDS), change=st.sampled_from([operator.resume, operator.resume, operator.pause]))
    def pause(self, gpu: str, change: Any) -> None:
        change(self.floor.turns, [self.floor.turns.gpu(gpu)], self.floor.now)
        self.floor.pass_time(0)
        self.floor.carry_out()

    @rule(policy=st.sampled_from(sorted(POLICIES)))
    def policy(self, policy: str) -> None:
        operator.set_policy(self.floor.turns, POLICIES[policy], self.floor.now)
        self.floor.carry_out()

    @precondition(lambda self: self.floor.seats)
    @rule(data=st.data())
    def make_reconnect(self, data: st.DataObject) -> None:
        container = self.floor.turns.members[self.process(data)]
        operator.make_reconnect(self.floor.turns, container, self.floor.now)
        self.floor.carry_out()

    @precondition(lambda self: not self.has_lied)
    @rule()
    def restart(self) -> None:
        self.floor.restart()

    @precondition(lambda self: self.floor.away)
    @rule(data=st.data(), dies=st.booleans())
    def come_back_or_die(self, data: st.DataObject, dies: bool) -> None:
        process = data.draw(st.sampled_from(sorted(self.floor.away)))
        if dies:
            del self.floor.away[process]
        else:
            self.floor.come_back(process)

    @invariant()
    def remember(self) -> None:
        if hasattr(self, "floor"):
            VISITED.add(self.floor.state())

    def teardown(self) -> None:
        """Check that each waiting container is served within bounded turns, once all answer."""
        if not hasattr(self, "floor"):
            return
        floor = self.floor
        operator.resume(floor.turns, list(floor.turns.grants.gpus.values()), floor.now)
        operator.set_policy(floor.turns, POLICIES["rr"], floor.now)
        floor.carry_out()
        waiting = {
            request.serial: request for one in floor.turns.containers.values() for request in one.requests.values()
        }
        before = floor.turns.grants._counter
        while any(request.serial in request.gpus[0].queue.arrivals for request in waiting.values()):
            floor.pass_time(1.0)
            floor.answer_yields()
            if floor.turns.grants._counter - before > 12 * max(1, len(waiting)) + 50 or floor.now > 10_000:
                raise Broken("somebody waits for ever")

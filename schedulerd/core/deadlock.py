"""When a cycle of waiting containers is a jam, and what is done about it.

The rule it owns: a cycle that has lasted `rules.jam` is asked to yield; one that has not yielded `rules.probe` later is
jammed, and its containers become gangs for good.  Looked for only while somebody holds a GPU and waits for another.
May import the model and the pure parts of this room only.
"""

from schedulerd.core import waiting_cycles
from schedulerd.core.grants import Grants
from schedulerd.core.messages import Revoked
from schedulerd.core.model import Notice, Stage, Tell, Tenant, Turn
from schedulerd.policies import FOREVER, Seconds

_LOOK_EVERY: Seconds = 0.25


class JamWatch:
    """Which turns have been part of a cycle, and since when."""

    def __init__(self, grants: Grants) -> None:
        self.grants = grants
        self.alarm: Seconds = FOREVER
        self.jams = 0
        self._since: dict[str, Seconds] = {}

    def waits(self, tenant: Tenant, now: Seconds) -> None:
        """A container has begun to wait."""
        if self.alarm == FOREVER and waiting_cycles.could_jam(tenant):
            self.alarm = now + _LOOK_EVERY

    def look(self, tenants: list[Tenant], now: Seconds) -> list[tuple[Tenant, ...]]:
        """The groups that are jammed; cycles that have only lasted are asked to yield."""
        suspects = [one for one in tenants if waiting_cycles.could_jam(one)]
        self.alarm = now + _LOOK_EVERY if suspects else FOREVER
        seen: dict[str, Seconds] = {}
        jammed: list[tuple[Tenant, ...]] = []
        for ring in waiting_cycles.cycles(suspects):
            turns = waiting_cycles.turns_between(ring)
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

    def take_apart(self, ring: tuple[Tenant, ...], now: Seconds) -> dict[str, set[int]]:
        """End the turns of a jam's containers, which are gangs from now on; which processes of each have work."""
        self.jams += 1
        waiting: dict[str, set[int]] = {}
        for tenant in ring:
            tenant.gang = True
            tenant.groups.clear()
            for turn in dict.fromkeys(tenant.turns.values()):
                self.grants.end(turn, now)
                self.grants.orders.append(Tell(tuple(tenant.processes), Revoked(turn.name, "jam")))
            wishes = dict.fromkeys(tenant.wishes.values())
            waiting[tenant.facts.key] = {process for wish in wishes for process in wish.by}
            for wish in wishes:
                self.grants.drop(wish)
        keys = tuple(tenant.facts.key for tenant in ring)
        gpus = tuple(dict.fromkeys(uuid for tenant in ring for uuid in tenant.facts.gpus))
        self.grants.orders.append(Notice("jam", keys, gpus))
        return waiting

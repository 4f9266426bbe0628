"""Grants: which request gets a GPU next, and when a holder is asked to yield.

The rule it owns: a request starts when all its GPUs are open to it, or not at all.  If the first request needs several
GPUs, or a whole GPU that several containers share, it gets a claim: all holders in its way yield at one moment, and
others may use free GPUs until then.  Claims are taken on all GPUs or none, so they never wait for each other.
"""

from collections.abc import Callable, Iterable, Sequence

from schedulerd.core import in_flight, memory
from schedulerd.core.messages import Grant, Wanted, Yield, milliseconds
from schedulerd.core.model import (
    Accounted,
    ContainerState,
    Gpu,
    Hangup,
    Order,
    Request,
    Rules,
    SetGate,
    Stage,
    Tell,
    Turn,
)
from schedulerd.core.usage import Share
from schedulerd.policies import FOREVER, Seconds

_WORD = 0xFFFFFFFF


class Grants:
    """The GPUs, and the decisions on them.  `orders` takes the orders."""

    def __init__(self, rules: Rules, *, epoch: str, on_part: Callable[[ContainerState, Seconds], None]) -> None:
        self.rules = rules
        self.epoch = epoch
        self.gpus: dict[str, Gpu] = {}
        self.turns: dict[str, Turn] = {}
        """The turns that go on, by name."""
        self.orders: list[Order] = []
        self.soonest: Seconds = FOREVER
        """When `wake` must be called.  It may find nothing to do, if the turn that was due has gone."""
        self._counter = 0
        self._on_part = on_part
        """Called when a container has a turn, and waits for another GPU."""

    # ------------------------------------------------------------------ what is due

    def settle(self, gpus: Iterable[Gpu], now: Seconds) -> None:
        """Grant all requests that can start on these GPUs, and tell the holders that are in the way."""
        touched = [*gpus]
        for gpu in touched:  # grows while a gang's grant touches further ones
            if gpu.queue.arrivals:
                for other in self._fill(gpu, now):
                    if other not in touched:
                        touched.append(other)
        for gpu in touched:
            self._mind(gpu, now)

    def wake(self, now: Seconds) -> None:

        for gpu in [one for one in self.gpus.values() if one.alarm <= now]:
            gpu.alarm = FOREVER
            self.settle((gpu,), now)
        self.soonest = min((gpu.alarm for gpu in self.gpus.values()), default=FOREVER)

    def ring(self, gpu: Gpu, when: Seconds) -> None:
        """Look at a GPU again at that time, or earlier."""
        if when < gpu.alarm:
            gpu.alarm = when
        if when < self.soonest:
            self.soonest = when

    def wait(self, request: Request, now: Seconds) -> None:
        """Put a request into the queues of its GPUs."""
        for gpu in request.gpus:
            request.container.requests[gpu.uuid] = request
            gpu.queue.add(request)
        if request.together or not self._changes_nothing(request, request.gpus[0]):
            self.settle(request.gpus, now)

    def _changes_nothing(self, request: Request, gpu: Gpu) -> bool:
        """Return whether nothing starts and no holder need be told: others are first for a GPU of one container."""
        if gpu.queue.together or not gpu.holders or gpu.holders[0].shared:
            return False
        return gpu.claim is None and gpu.queue.top() is not request

    # ------------------------------------------------------------------ granting

    def _fill(self, gpu: Gpu, now: Seconds) -> Sequence[Gpu]:
        """Grant this GPU as long as a request can start.  Return the GPUs that were granted together with it."""
        touched: list[Gpu] = []
        while gpu.queue.arrivals:
            if gpu.holders and not gpu.holders[0].shared:
                if gpu.queue.together and (top := gpu.queue.top()) is not None:
                    self._claim(top, now)
                break
            request = self._next(gpu, now)
            if request is None:
                break
            self._grant(request, now)
            if request.together:
                touched.extend(request.gpus)
        return touched

    def _next(self, gpu: Gpu, now: Seconds) -> Request | None:
        """Return the first request that can start.  The one at the front gets a claim if it cannot."""
        top = gpu.queue.top()
        if top is None or gpu.paused is not None:
            return None
        if now < gpu.closed_until:
            return next((request for request in gpu.queue.in_order() if self._can_start(request, now)), None)
        if self._can_start(top, now):
            return top
        self._claim(top, now)
        if len(gpu.queue) == 1:
            return None
        return next((request for request in gpu.queue.in_order() if self._can_start(request, now)), None)

    def _can_start(self, request: Request, now: Seconds) -> bool:
        for gpu in request.gpus:  # noqa: SIM110  a loop costs a third of `all`, and this is on the path of every hand-off
            if not self._is_open(gpu, request, now):
                return False
        return True

    def _is_open(self, gpu: Gpu, request: Request, now: Seconds) -> bool:
        if gpu.paused is not None or gpu.uuid in request.container.turns or request.container.must_reconnect:
            return False
        if now < gpu.closed_until and gpu.missing.keys() != {request.container.facts.key}:
            return False  # only the container whose own processes are missing may start
        claim = gpu.claim
        if claim is not None and claim is not request and not self._has_time_before(claim, now):
            return False
        return not gpu.holders or self._fits_beside(gpu, request)

    def _has_time_before(self, claim: Request, now: Seconds) -> bool:
        return claim.drain_at is not None and now + self.rules.least_turn <= claim.drain_at

    def _fits_beside(self, gpu: Gpu, request: Request) -> bool:
        if not self.rules.side_by_side or not gpu.holders[0].shared or not self._can_share(request):
            return False
        return memory.fits_beside(self.rules, gpu, request.container)

    def _can_share(self, request: Request) -> bool:
        if not self.rules.side_by_side:
            return False
        shares = request.container.shares
        return all(memory.can_share(self.rules, gpu, shares[gpu.uuid]) for gpu in request.gpus)

    def _grant(self, request: Request, now: Seconds) -> None:
        container = request.container
        self.drop(request)
        turn = self.begin(container, request.gpus, now, request=request)
        for gpu in request.gpus:
            if now > request.since:
                gpu.waited_at = now
            share = container.shares[gpu.uuid]
            share.count_wait(now - request.since)
            if share.virtual < gpu.clock:
                self._catch_up(gpu, share, request)
            gpu.grants += 1
            if gpu.queue.together or self.rules.policy.ages:
                self._age_oldest(gpu, now)
        self.tell_granted(turn, tuple(container.processes), now)

    def _catch_up(self, gpu: Gpu, share: Share, request: Request) -> None:
        """Move a container up to the clock: it does not get back what others had, by another policy or as gangs."""
        share.virtual = gpu.clock
        snapshots = request.snapshots  # its turn has the very same mapping
        snapshots[gpu.uuid] = snapshots[gpu.uuid]._replace(virtual=gpu.clock)

    def begin(self, container: ContainerState, gpus: tuple[Gpu, ...], now: Seconds, *, request: Request) -> Turn:
        self._counter += 1
        name = f"{self.epoch}.{self._counter}"
        quantum, shared = memory.quantum(self.rules, request), self.rules.side_by_side and self._can_share(request)
        word = (self._counter & _WORD) or _WORD  # never 0: that is a closed gate
        turn = Turn(word, name, container, gpus, request.names, now, quantum, request.snapshots, shared)
        self.turns[turn.name] = turn
        for gpu in gpus:
            if gpu.missing and now >= gpu.closed_until:
                self.account_for(gpu, *gpu.missing)  # the time to come back is over
            self._seat(gpu, turn, now)
        if container.requests:
            self._on_part(container, now)
        return turn

    def _seat(self, gpu: Gpu, turn: Turn, now: Seconds) -> None:
        if gpu.holders:
            self.accrue(gpu, now)
        gpu.accrued_at = now
        gpu.holders.append(turn)
        container, key = turn.container, turn.container.facts.key
        if gpu.last_holder != key:
            gpu.switches += 1
            gpu.last_holder = key
        container.turns[gpu.uuid] = turn
        pids = (*container.roster, *gpu.missing.get(key, ())) if gpu.missing else container.roster
        self.orders.append(SetGate(key, gpu.uuid, turn.word, pids))

    def tell_granted(self, turn: Turn, processes: tuple[int, ...], now: Seconds) -> None:
        """Tell processes of a turn.  They run in it from now on."""
        for process in processes:
            turn.processes_running[process] = turn.names
        waiting = False
        for gpu in turn.gpus:
            waiting = waiting or bool(gpu.queue.arrivals)
        if len(processes) == len(turn.container.processes):
            turn.told = waiting
        keep_ms, quiet_ms = (self._keep_ms(turn), 0) if waiting else (0, in_flight.quiet_ms(self.rules, turn, now))
        message = Grant(turn.name, turn.names, milliseconds(turn.quantum), turn.shared, waiting, keep_ms, quiet_ms)
        self.orders.append(Tell(processes, message))

    def add_process(self, turn: Turn, process: int, now: Seconds) -> None:
        """Let one more process run in its container's turn; ask it to yield if the others were asked."""
        self.show(turn)
        if turn.stage is Stage.RUNNING:
            self.tell_granted(turn, (process,), now)
        else:
            turn.processes_running[process] = turn.names
            self.orders.append(Tell((process,), self._yield(turn)))

    def show(self, turn: Turn) -> None:
        """Keep the changed processes of a turn.  The next daemon waits for the connected and the missing ones."""
        key, roster = turn.container.facts.key, turn.container.roster
        for gpu in turn.gpus:
            self.orders.append(SetGate(key, gpu.uuid, turn.word, (*roster, *gpu.missing.get(key, ()))))

    def account_for(self, gpu: Gpu, *containers: str) -> None:
        """Stop waiting for containers that had this GPU under an earlier daemon."""
        for container in containers:
            del gpu.missing[container]
            turn = next((one for one in gpu.holders if one.container.facts.key == container), None)
            if turn is None:
                self.orders.append(Accounted(container, gpu.uuid))
            else:
                self.show(turn)
        if not gpu.missing:
            gpu.closed_until = -FOREVER

    # ------------------------------------------------------------------ ending

    def end(self, turn: Turn, now: Seconds, *, idle: bool = False) -> None:
        """End a turn: close its gates, charge its time.  The caller settles its GPUs."""
        container, key = turn.container, turn.container.facts.key
        del self.turns[turn.name]
        for gpu in turn.gpus:
            self.accrue(gpu, now)
            gpu.holders.remove(turn)
            del container.turns[gpu.uuid]
            share = container.shares[gpu.uuid]
            share.count_turn(now - turn.granted_at, idle=idle)
            if not gpu.holders and not gpu.queue.arrivals:
                gpu.clock = max(gpu.clock, share.virtual)
            self.orders.append(SetGate(key, gpu.uuid, 0, tuple(gpu.missing.get(key, ())) if gpu.missing else ()))
        if container.must_reconnect:
            self.hang_up_at_rest(container)

    def hang_up_at_rest(self, container: ContainerState) -> None:
        """Close a container's connections, so that it comes for a new welcome; never while its kernels may run."""
        if not container.turns:
            self.orders.extend(Hangup(process) for process in container.processes)

    def drop(self, request: Request) -> None:
        """Take a request out of the queues of its GPUs."""
        for gpu in request.gpus:
            gpu.queue.remove(request)
            del request.container.requests[gpu.uuid]
            if gpu.claim is request:
                gpu.claim = None

    def accrue(self, gpu: Gpu, now: Seconds) -> None:
        """Charge the holders for the time since the last charge."""
        passed, gpu.accrued_at = now - gpu.accrued_at, now
        if not gpu.holders or passed <= 0:
            return
        gpu.busy.add(passed, now)
        part = passed * 100 / len(gpu.holders)
        for turn in gpu.holders:
            container = turn.container
            share = container.shares[gpu.uuid]
            share.held += passed
            share.virtual += part / container.facts.weight

    # ------------------------------------------------------------------ claims and age

    def _claim(self, request: Request, now: Seconds) -> None:
        """Give a request a claim on its GPUs, if it needs one and is the first in the queues of all of them."""
        if request.drain_at is not None or not (request.together or len(request.gpus[0].holders) > 1):
            return
        for gpu in request.gpus:
            if gpu.claim is not None or gpu.paused is not None or gpu.queue.top() is not request:
                return
        for gpu in request.gpus:
            gpu.claim = request
        request.drain_at = self._drain_time(request, now)
        for gpu in request.gpus:
            self.ring(gpu, max(now, request.drain_at))

    def give_up_claim(self, request: Request) -> None:
        """Give up a claim: its GPUs will not be free together for now, so others may use the free ones."""
        request.drain_at = None
        for gpu in request.gpus:
            gpu.claim = None
            self.ring(gpu, -FOREVER)

    def _drain_time(self, request: Request, now: Seconds) -> Seconds:
        """Return when all holders in the way of a request will have had the time that is due to them."""
        dues = (self._due_for(gpu, turn, request) for gpu in request.gpus for turn in gpu.holders)
        return max(max(dues, default=now), now)

    def _age_oldest(self, gpu: Gpu, now: Seconds) -> None:
        request = gpu.queue.oldest()
        if request is None or request.aged or not (request.together or self.rules.policy.ages):
            return
        if gpu.grants - request.snapshots[gpu.uuid].grants < self.rules.age_turns * len(gpu.containers):
            return
        request.aged = True
        for one in request.gpus:
            one.queue.put_in_front(request)
            self.ring(one, now)
        if request.drain_at is not None:
            request.drain_at = self._drain_time(request, now)

    # ------------------------------------------------------------------ asking to yield

    def _mind(self, gpu: Gpu, now: Seconds) -> None:
        """Tell the holders that others wait, ask holders whose time is over to yield, set the alarm for the rest."""
        gpu.alarm = FOREVER
        wanted = bool(gpu.queue.arrivals) or gpu.paused is not None
        if now < gpu.closed_until:
            self.ring(gpu, gpu.closed_until)
            wanted = gpu.paused is not None  # no other container can start yet, even if this one yields
        for turn in gpu.holders:
            if turn.stage is Stage.YIELDING:
                self.ring(gpu, turn.deadline)
            elif wanted:
                self.ring(gpu, self._mind_holder(gpu, turn, now))

    def _mind_holder(self, gpu: Gpu, turn: Turn, now: Seconds) -> Seconds:
        """Tell a running holder what it must know, and return when to look at it again."""
        left_alone = turn.granted_at + self.rules.hush
        if now < left_alone and gpu.paused is None:
            return left_alone
        due = self._due(gpu, turn, now)
        if due <= now:
            self.ask(turn, now, reason=gpu.paused or "overdue")
            return turn.deadline
        if not turn.told:
            self._tell_wanted(turn)
        return due

    def _due(self, gpu: Gpu, turn: Turn, now: Seconds) -> Seconds:
        """Return when the holder of this turn is to be asked to yield this GPU."""
        if gpu.paused is not None:
            return now
        claim, top = gpu.claim, gpu.queue.top()
        if claim is None and top is not None and not gpu.queue.together:
            return self._due_for(gpu, turn, top)
        due = FOREVER if claim is None or claim.drain_at is None else claim.drain_at
        other = next(
            (request for request in gpu.queue.in_order() if not request.together and request is not claim), None
        )
        return due if other is None else min(due, self._due_for(gpu, turn, other))

    def _due_for(self, gpu: Gpu, turn: Turn, request: Request) -> Seconds:
        if turn.stage is Stage.YIELDING:
            return turn.granted_at
        quantum = turn.quantum
        patience = self.rules.policy.patience(turn.snapshots[gpu.uuid], request.snapshots[gpu.uuid], quantum)
        return turn.granted_at + (min(patience, quantum) if request.aged else patience)

    def _tell_wanted(self, turn: Turn) -> None:
        turn.told = True
        self.orders.append(Tell(tuple(turn.container.processes), Wanted(turn.name, self._keep_ms(turn))))

    def _keep_ms(self, turn: Turn) -> int:
        keep = 0.0
        for gpu in turn.gpus:
            worth = memory.keep(self.rules, gpu, turn.container)
            if worth > keep:
                keep = worth
        return milliseconds(keep)

    def ask(self, turn: Turn, now: Seconds, *, reason: str = "overdue") -> None:
        """Ask a holder to yield.  After the grace its turn is revoked for this reason."""
        if turn.stage is Stage.YIELDING:
            return
        turn.stage = Stage.YIELDING
        turn.reason = reason
        turn.deadline = now + self.rules.grace
        for gpu in turn.gpus:
            turn.container.shares[gpu.uuid].yields += 1
            self.ring(gpu, turn.deadline)
        self.orders.append(Tell(tuple(turn.container.processes), self._yield(turn)))

    def _yield(self, turn: Turn) -> Yield:
        return Yield(turn.name, round(self.rules.grace * 1000))

"""The exact moment and number at which the smaller rules turn over: histories, usage, waiters, sizes, figures, jams."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from contract.wire.control import Figures
from contract.words.grammar import AllocationKind, Mode
from schedulerd.core import memory
from schedulerd.core.deadlock import cycles, turns_between, waits_for
from schedulerd.core.history import Histories
from schedulerd.core.messages import Complaint, Done, Grant, milliseconds
from schedulerd.core.model import Container, ContainerState, Gpu, Rules, Stage
from schedulerd.core.node_state import Node
from schedulerd.core.usage import BusyTime, Share
from schedulerd.core.wait_queue import WaitQueue
from schedulerd.policies import POLICIES, Snapshot
from tests.fakes.containers import Floor


# ---------------------------------------------------------------------------------------------- histories
def test_a_history_is_kept_for_ten_minutes_and_not_longer() -> None:
    histories = Histories()
    for key, now in (("a.0", 0.0), ("b.0", 599.9)):
        histories.keep(key, {}, now, gang=False)
    assert len(histories) == 2

    histories.keep("c.0", {}, 600.0, gang=False)
    assert [histories.take(key) is not None for key in ("a.0", "b.0", "c.0")] == [False, True, True]


def test_the_oldest_of_too_many_is_forgotten() -> None:
    histories = Histories()
    for number in range(1025):
        histories.keep(f"{number}.0", {}, 0.0, gang=True)

    assert len(histories) == 1024
    assert histories.take("0.0") is None
    last = histories.take("1024.0")
    assert last is not None
    assert (last.gang, last.until) == (True, 600.0)
    assert histories.take("1024.0") is None


def test_an_allocation_takes_the_histories_of_its_containers_alone() -> None:
    histories = Histories()
    for key in ("a.0", "a.1", "aa.0", "b.0"):
        histories.keep(key, {}, 0.0, gang=False)
    histories.forget_all_of("a")

    assert [key for key in ("a.0", "a.1", "aa.0", "b.0") if histories.take(key)] == ["aa.0", "b.0"]


# ---------------------------------------------------------------------------------------------- usage
@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        *((0.0, 0), (0.001, 0), (0.0011, 1), (0.01, 1), (0.011, 2), (0.1, 2), (0.11, 3), (1.0, 3), (1.1, 4)),
        *((5.0, 4), (5.1, 5), (30.0, 5), (30.1, 6), (120.0, 6), (120.1, 7)),
    ],
)
def test_the_bucket_of_a_wait(seconds: float, bucket: int) -> None:
    share = Share()
    share.count_wait(seconds)

    assert (share.turns, share.waited, share.waits.index(1), sum(share.waits), len(share.waits)) == (
        1,
        seconds,
        bucket,
        1,
        8,
    )


def test_a_burst_goes_on_over_turns_until_the_container_falls_idle() -> None:
    share = Share()
    share.count_turn(2.0, idle=False)
    share.count_turn(3.0, idle=False)
    assert (share.burst, share.expected_burst) == (0.0, 5.0)

    share.count_turn(5.0, idle=True)
    assert (share.burst, share.burst_so_far, share.expected_burst) == (3.0, 0.0, 3.0)
    share.count_turn(1.0, idle=True)
    assert share.burst == pytest.approx(3.0 - 0.3 * 2.0)


def test_what_was_promised_is_the_most_of_all_and_goes_with_its_process() -> None:
    share = Share()
    share.promise(1, 30)
    share.promise(2, 20)
    assert (share.reserved, share.allocated) == (30, 30)

    share.set_using(1, 25, 10)
    assert share.allocated == 35
    share.set_using(1, 25, 10)
    assert share.promised == {1: 30, 2: 20}
    share.set_using(1, 25, 9)
    assert share.promised == {2: 20}
    share.forget(1)
    assert (share.pageable, share.unpageable, share.reserved, share.allocated) == (0, 0, 20, 20)
    share.forget(2)
    assert (share.reserved, share.promised) == (0, {})


@pytest.mark.parametrize(
    ("added", "now", "lately"),
    [
        pytest.param([], 10.0, 0.0, id="never"),
        pytest.param([(2.0, 10.0)], 10.0, 0.2, id="two seconds of ten"),
        pytest.param([(20.0, 20.0)], 20.0, 1.0, id="all the time"),
        pytest.param([(4.0, 4.0), (2.0, 12.0)], 12.0, 0.4, id="half of the first is long ago"),
        pytest.param([(2.0, 2.0), (4.0, 8.0), (2.0, 16.0)], 16.0, 0.4, id="half of the second is long ago"),
        pytest.param([(4.0, 4.0)], 20.0, 0.0, id="all of it is long ago"),
        pytest.param([(0.5, 20.0), (0.5, 21.0)], 21.0, 0.1, id="hardly ever"),
    ],
)
def test_how_busy_a_gpu_was_lately(added: list[tuple[float, float]], now: float, lately: float) -> None:
    busy = BusyTime()
    for seconds, at in added:
        busy.add(seconds, at)

    assert busy.lately(now=now, charged_at=now, uncharged=0.0) == pytest.approx(lately)
    assert busy.total == sum(seconds for seconds, _ in added)


def test_samples_are_taken_four_times_a_second_and_dropped_after_the_window() -> None:
    busy = BusyTime()
    for step in range(1, 401):
        busy.add(0.1, step / 10)

    assert 60 < len(busy.samples) < 80
    assert busy.samples[1][0] >= 40.0 - 10.0 - 0.3


@pytest.mark.parametrize(
    ("charged_at", "uncharged", "lately"),
    [
        pytest.param(8.0, 12.0, 1.0, id="held since long before the window"),
        pytest.param(8.0, 6.0, 0.5, id="held for half of that time"),
        pytest.param(20.0, 50.0, 1.0, id="never more than all of the time"),
        pytest.param(20.0, -50.0, 0.0, id="never less than nothing"),
    ],
)
def test_the_time_that_is_not_charged_yet_counts_too(charged_at: float, uncharged: float, lately: float) -> None:
    busy = BusyTime()
    busy.add(4.0, 4.0)

    assert busy.lately(now=20.0, charged_at=charged_at, uncharged=uncharged) == pytest.approx(lately)


def test_a_sample_is_taken_after_a_quarter_of_a_second_and_not_before() -> None:
    busy = BusyTime()
    for at in (0.25, 0.375, 0.5):
        busy.add(0.125, at)

    assert [at for at, _ in busy.samples] == [0.125, 0.25, 0.375, 0.5]


def test_samples_older_than_the_window_are_dropped_but_the_one_before_it() -> None:
    busy = BusyTime()
    for step in range(1, 81):
        busy.add(0.5, step / 2)

    assert busy.samples[0][0] <= 30.0 <= busy.samples[1][0]


# ---------------------------------------------------------------------------------------------- the wire
@pytest.mark.parametrize(("seconds", "told"), [(0.0, 1), (0.0004, 1), (0.001, 1), (0.0016, 2), (3.0, 3000)])
def test_a_time_on_the_wire_is_one_millisecond_at_least(seconds: float, told: int) -> None:
    assert milliseconds(seconds) == told


# ---------------------------------------------------------------------------------------------- the line of waiters
@dataclass
class Waiter:
    serial: int
    priority: int = 0
    together: bool = False
    aged: bool = False
    snapshots: dict[str, Snapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.snapshots = {"A": Snapshot(self.serial, self.priority, 100, 0.0, 0.0, 0)}


def line_of(*waiters: Waiter) -> WaitQueue[Any]:
    line: WaitQueue[Any] = WaitQueue("A", POLICIES["priority"])
    for waiter in waiters:
        line.add(waiter)
    return line


def test_the_line_goes_by_rank_then_arrival_and_knows_its_oldest() -> None:
    waiters = [Waiter(1), Waiter(2, priority=5), Waiter(3, together=True), Waiter(4, priority=9)]
    line = line_of(*waiters)

    assert [one.serial for one in line.in_order()] == [4, 2, 1, 3]
    assert (line.top(), line.oldest(), len(line), line.together) == (waiters[3], waiters[0], 4, 1)
    for one in (waiters[1], waiters[3], waiters[2]):
        line.remove(one)
        line.remove(one)
    assert ([*line.in_order()], line.together) == ([waiters[0]], 0)


def test_the_aged_stand_in_front_and_stay_there_under_another_policy() -> None:
    waiters = [Waiter(1), Waiter(2), Waiter(3, priority=5)]
    line = line_of(*waiters)
    waiters[1].aged = True
    line.put_in_front(waiters[1])
    assert [one.serial for one in line.in_order()] == [2, 3, 1]

    line.reorder(POLICIES["fcfs"])
    assert [one.serial for one in line.in_order()] == [2, 1, 3]
    line.remove(waiters[1])
    assert [one.serial for one in line.in_order()] == [1, 3]


def test_an_empty_line_has_neither_first_nor_oldest() -> None:
    assert (line_of().top(), line_of().oldest(), len(line_of())) == (None, None, 0)


# ---------------------------------------------------------------------------------------------- sizes on a card
RULES = Rules(
    card_reserve=10, context_bytes=5, paging_rate=10.0, keep=0.5, quantum=1.0, grace=2.0, longest_quantum=50.0
)


def on_card(size: int | None, needed: int, **facts: Any) -> tuple[Gpu, ContainerState]:
    floor = Floor(RULES, capacity=size, gpus=1)
    floor.join(Container(key="a", gpus=("GPU-1",), **facts))
    gpu, container = floor.turns.gpu("GPU-1"), floor.turns.containers["a"]
    container.shares["GPU-1"].set_using(1, needed, 0)
    memory.recount(RULES, gpu, container)
    return gpu, container


@pytest.mark.parametrize(
    ("facts", "size", "said", "needed", "pinned"),
    [
        pytest.param({}, 100, 50, 55, 5, id="what it says, and a context"),
        pytest.param({}, 100, 150, 105, 5, id="at most the card"),
        pytest.param({"memory": 40}, 100, 50, 45, 5, id="at most its cap"),
        pytest.param({"memory": 40}, None, 50, 45, 5, id="at most its cap on a card of unknown size"),
        pytest.param({"allocation": AllocationKind.PLAIN}, 100, 50, 55, 55, id="nothing of it can be paged"),
    ],
)
def test_what_a_container_counts_on_a_card(
    facts: dict[str, Any], size: int | None, said: int, needed: int, pinned: int
) -> None:
    gpu, _ = on_card(size, said, **facts)

    assert (gpu.needed, gpu.pinned) == (needed, pinned)


@pytest.mark.parametrize(
    ("size", "said", "switch", "keep"),
    [
        pytest.param(None, 200, 0.0, 0.5, id="a card of unknown size"),
        pytest.param(100, 50, 0.0, 0.5, id="there is room to spare"),
        pytest.param(100, 85, 0.0, 0.5, id="all fits"),
        pytest.param(100, 95, 1.0, 1.0, id="ten bytes are over"),
        pytest.param(100, 86, 0.1, 0.5, id="hardly any is over"),
    ],
)
def test_what_a_switch_costs_and_how_long_a_holder_is_kept(
    size: int | None, said: int, switch: float, keep: float
) -> None:
    gpu, container = on_card(size, said)

    assert memory.switch_seconds(RULES, gpu, container.shares["GPU-1"]) == pytest.approx(switch)
    assert memory.keep(RULES, gpu, container) == pytest.approx(keep)


def test_a_holder_is_kept_ten_seconds_at_most() -> None:
    gpu, container = on_card(1000, 1000)

    assert memory.keep(replace(RULES, paging_rate=0.1), gpu, container) == 10.0


@pytest.mark.parametrize(("needed", "expected"), [(90, True), (91, False)])
def test_a_turn_may_have_company_where_its_own_share_fits(needed: int, expected: bool) -> None:
    gpu, _ = on_card(100, 0)

    assert memory.can_share(RULES, gpu, Share(needed=needed)) is expected


def test_the_longest_turn_is_the_fixed_one_or_the_longest_and_its_grace() -> None:
    gpu, container = on_card(100, 0)
    assert memory.longest_turn(RULES, gpu, container) == 52.0

    assert memory.longest_turn(replace(RULES, longest_quantum=0.5), gpu, container) == 2.5
    gpu.fixed_quantum = 70.0
    assert memory.longest_turn(RULES, gpu, container) == 72.0
    container.facts = replace(container.facts, quantum=80.0)
    assert memory.longest_turn(RULES, gpu, container) == 82.0


# ---------------------------------------------------------------------------------------------- the node's figures
@pytest.mark.parametrize(
    ("spoke", "now", "ready"), [(None, 0.0, False), (0.0, 20.0, True), (0.0, 20.5, False), (5.0, 25.0, True)]
)
def test_an_observer_that_is_silent_for_twenty_seconds_is_missed(spoke: float | None, now: float, ready: bool) -> None:
    assert (Node(observer_spoke_at=spoke).why_not_ready(now) == "") is ready


def test_figures_hold_for_ten_seconds() -> None:
    node = Node()
    node.hear("a", Figures(power=1.0), 0.0)
    node.hear("b", Figures(power=2.0), 4.0)

    assert (sorted(node.lately(10.0)), node.age(10.0)) == (["a", "b"], 10.0)
    assert (sorted(node.lately(10.1)), node.age(10.5)) == (["b"], 6.5)
    assert (sorted(node.lately(30.0)), node.age(30.0)) == ([], 26.0)
    assert Node().age(7.0) == 7.0


# ---------------------------------------------------------------------------------------------- rings
def ring(rules: Rules) -> tuple[Floor, list[int]]:
    floor = Floor(rules, gpus=2)
    processes = [floor.join(Container(key=key, gpus=("GPU-1", "GPU-2"), mode=Mode.PER_DEVICE)) for key in ("a", "b")]
    for number, process in enumerate(processes):
        floor.want(process, f"GPU-{1 + number}")
    for number, process in enumerate(processes):
        floor.want(process, f"GPU-{2 - number}")
    return floor, processes


@pytest.mark.parametrize(("seconds", "asked", "deadlocks"), [(0.4, 0, 0), (0.9, 2, 0), (1.4, 2, 0), (1.5, 2, 1)])
def test_a_ring_is_asked_to_yield_and_taken_apart_after_the_probe(seconds: float, asked: int, deadlocks: int) -> None:
    floor, _ = ring(Rules(quantum=30.0, jam=0.5, probe=0.75))
    floor.pass_time(seconds)

    assert sum("message=Yield(" in order for order in floor.history) == asked
    assert (floor.turns.deadlocks.count, len(floor.notices)) == (deadlocks, deadlocks)


def test_the_next_look_for_rings_is_not_put_off_by_further_waiters() -> None:
    floor, _ = ring(Rules(quantum=30.0, jam=0.5))
    before = floor.turns.deadlocks.alarm
    floor.turns.deadlocks.waits(floor.turns.containers["a"], floor.now + 0.2)

    assert floor.turns.deadlocks.alarm == before == 0.25


def test_a_container_that_wants_again_what_it_is_to_give_up_does_not_wait_for_itself() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process = floor.join(Container(key="a", gpus=("GPU-1", "GPU-2"), mode=Mode.PER_DEVICE))
    floor.want(process, "GPU-1")
    floor.turns.grants.ask(floor.turns.gpu("GPU-1").holders[0], floor.now)
    floor.carry_out()
    floor.want(process, "GPU-1")

    assert list(floor.turns.containers["a"].requests) == ["GPU-1"]
    assert waits_for(floor.turns.containers["a"]) == []


def test_a_ring_is_left_alone_while_one_of_its_turns_is_new_in_it() -> None:
    floor, _ = ring(Rules(quantum=30.0, jam=0.5))
    watch, gpus = floor.turns.deadlocks, floor.turns.grants.gpus
    watch._since = {gpus["GPU-1"].holders[0].name: floor.now - 0.5}

    assert watch.look(list(floor.turns.containers.values()), floor.now) == []
    assert [gpu.holders[0].stage for gpu in gpus.values()] == [Stage.RUNNING, Stage.RUNNING]


def test_a_turn_outside_a_ring_is_not_asked_for_the_rings_sake() -> None:
    floor = Floor(Rules(quantum=30.0, side_by_side=False), gpus=3)
    a, b, c = (
        floor.join(Container(key=key, gpus=gpus, mode=Mode.PER_DEVICE))
        for key, gpus in (("a", ("GPU-1", "GPU-2")), ("b", ("GPU-1", "GPU-2", "GPU-3")), ("c", ("GPU-3", "GPU-2")))
    )
    for number, process in enumerate((a, b, c), 1):
        floor.want(process, f"GPU-{number}")
    floor.want(a, "GPU-2")
    floor.want(b, "GPU-1", "GPU-3")
    members = floor.turns.containers

    assert cycles(members.values()) == [(members["a"], members["b"])]
    assert {turn.container.facts.key for turn in turns_between((members["a"], members["b"]))} == {"a", "b"}


def test_a_container_that_waits_for_one_that_waits_for_nobody_is_in_no_ring() -> None:
    floor = Floor(Rules(quantum=30.0, side_by_side=False), gpus=2)
    floor.want(floor.join(Container(key="single", gpus=("GPU-1",))), "GPU-1")
    process = floor.join(Container(key="a", gpus=("GPU-1", "GPU-2"), mode=Mode.PER_DEVICE))
    floor.want(process, "GPU-2")
    floor.want(process, "GPU-1")

    assert cycles([floor.turns.containers["a"]]) == []


def test_after_a_jam_its_containers_are_gangs_and_one_of_them_goes_on_at_once() -> None:
    floor, processes = ring(Rules(quantum=30.0, jam=0.5, probe=0.75))
    floor.pass_time(2.0)

    assert all(floor.turns.containers[key].gang for key in "ab")
    assert all(set(floor.turns.containers[key].groups) == {("GPU-1", "GPU-2")} for key in "ab")
    assert floor.open_on("GPU-1") == floor.open_on("GPU-2") != []
    assert sum("'jam')" in order or "reason='jam'" in order for order in floor.history) == 2
    assert sum(bool(floor.seats[process].turns) for process in processes) == 1
    assert [(notice.containers, notice.gpus) for notice in floor.notices] == [(("a", "b"), ("GPU-1", "GPU-2"))]


def test_a_card_of_unknown_size_has_no_room_and_usual_turns() -> None:
    gpu, container = on_card(None, 200)

    assert memory.room(RULES, gpu) == -10
    assert memory._quantum_on(RULES, gpu, container) == 1.0


def test_nothing_is_known_of_a_container_or_a_node_at_first() -> None:
    share, node = Share(), Node()
    numbers = [getattr(share, one.name) for one in fields(share) if isinstance(getattr(share, one.name), int | float)]

    assert (Container(key="a", gpus=()).priority, share.above_cap) == (0, False)
    assert set(numbers) == {0}
    gpu = Floor(RULES, gpus=1).turns.gpu("GPU-1")
    assert {gpu.clock, gpu.accrued_at, gpu.grants, gpu.switches, gpu.needed, gpu.pinned} == {0}
    assert (node.foreign, node.loop, node.observer_spoke_at) == (0, None, None)


def test_a_grant_that_says_no_more_is_of_a_container_alone_and_an_answer_tells_no_time() -> None:
    assert Grant("0000000a.1", ("A",), 100)[3:] == (False, False, 0, 0)
    assert Done("0000000a.1")[1:] == (None, "yield", 0)
    assert Complaint("code", "message", "want").wait is False


def test_the_rules_that_no_operator_changes() -> None:
    rules = Rules()

    assert (rules.paging_rate, rules.context_bytes, rules.card_reserve) == (5.0e9, 300 << 20, 256 << 20)
    assert (rules.keep, rules.hush, rules.jam, rules.probe) == (0.005, 0.001, 0.5, 0.75)
    assert (rules.age_turns, rules.least_turn) == (4, 0.01)


def test_processes_that_the_kernel_does_not_name_have_a_context_each() -> None:
    floor = Floor(RULES, gpus=1)
    for process in (1, 2):
        floor.turns.join(process, Container(key="a", gpus=("GPU-1",)))

    assert floor.turns.containers["a"].contexts == 2


def test_a_ring_without_turns_between_is_no_jam() -> None:
    assert Floor(RULES, gpus=1).turns.deadlocks.look([], 0.0) == []

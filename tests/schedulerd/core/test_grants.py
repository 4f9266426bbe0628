"""Claims, age and the moments at which a holder is told and asked: each at its exact time."""

from dataclasses import replace
from typing import Any

import pytest

from contract.words.grammar import Mode
from schedulerd.core import operator
from schedulerd.core.messages import Grant, Using, Wanted, Yield
from schedulerd.core.model import UNKNOWN, Accounted, Container, Request, Rules, SetGate, Stage
from schedulerd.core.recovery import _was_there
from schedulerd.policies import POLICIES
from tests.fakes.containers import Floor

RR = Rules(policy=POLICIES["rr"], quantum=1.0, side_by_side=False)


def join(floor: Floor, key: str, *numbers: int, **facts: Any) -> int:
    mode = Mode.SINGLE if len(numbers) == 1 else Mode.GANG
    return floor.join(
        Container(key=key, gpus=tuple(f"GPU-{n}" for n in numbers), mode=facts.pop("mode", mode), **facts)
    )


def want(floor: Floor, process: int) -> None:
    floor.want(process, *floor.turns.members[process].facts.gpus)


def holding(floor: Floor, key: str, *numbers: int, **facts: Any) -> int:
    process = join(floor, key, *numbers, **facts)
    want(floor, process)
    return process


def wish_of(floor: Floor, process: int) -> Request:
    return next(iter(floor.turns.members[process].requests.values()))


def turn_of(floor: Floor, process: int) -> str:
    return next(iter(floor.seats[process].turns))


def told(floor: Floor, kind: type) -> list[Any]:
    """Return the messages of a kind that were sent, as text."""
    return [order for order in floor.history if f"message={kind.__name__}(" in order]


# ---------------------------------------------------------------------------------------------- hush, quantum, grace
def test_a_holder_is_told_of_a_waiter_after_the_hush_and_asked_after_its_quantum() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    holding(floor, "b", 1)
    floor.pass_time(0.0009)
    assert not told(floor, Wanted)

    floor.pass_time(0.0002)
    assert len(told(floor, Wanted)) == 1
    floor.pass_time(0.9)
    assert not told(floor, Yield)

    floor.pass_time(0.1)
    assert len(told(floor, Wanted)) == len(told(floor, Yield)) == 1


def test_a_yield_names_the_grace_and_the_turn_is_revoked_when_it_has_passed() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    holding(floor, "b", 1)
    floor.pass_time(1.0)
    (turn,) = floor.turns.grants.gpus["GPU-1"].holders

    assert turn.stage is Stage.YIELDING
    assert f"grace_ms={RR.grace * 1000:.0f})" in told(floor, Yield)[0]
    assert turn.deadline == pytest.approx(1.0 + RR.grace)
    assert floor.turns.containers["a"].shares["GPU-1"].yields == 1
    floor.pass_time(RR.grace)
    assert floor.open_on("GPU-1") == ["b"]
    assert not floor.seats[a].turns
    assert [notice.kind for notice in floor.notices] == ["overdue"]


def test_a_holder_whom_nobody_waits_for_is_left_alone() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    floor.pass_time(100.0)

    assert not told(floor, Wanted) + told(floor, Yield)
    assert floor.turns.next_alarm() == float("inf")


def test_a_holder_is_left_alone_again_when_the_last_waiter_has_gone() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    floor.leave(holding(floor, "b", 1))

    assert floor.turns.gpu("GPU-1").alarm == float("inf")


def test_a_grant_says_whether_somebody_waits_and_how_long_it_may_idle() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    b = holding(floor, "b", 1)
    holding(floor, "c", 1)
    first = turn_of(floor, a)
    assert floor.seats[a].turns[first] == Grant(first, ("GPU-1",), 1000, False, False, 0, quiet_ms=10_000)

    floor.done(a, turn_of(floor, a))
    assert floor.seats[b].turns[turn_of(floor, b)] == Grant(turn_of(floor, b), ("GPU-1",), 1000, False, True, 5)


# ---------------------------------------------------------------------------------------------- pause
def test_a_pause_asks_at_once_and_gives_the_gpu_to_nobody_until_it_ends() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    b = holding(floor, "b", 1)
    operator.pause(floor.turns, [floor.turns.gpu("GPU-1")], floor.now)
    floor.carry_out()
    assert floor.seats[a].asked

    floor.answer_yields()
    floor.pass_time(10.0)
    assert floor.open_on("GPU-1") == []
    operator.resume(floor.turns, [floor.turns.gpu("GPU-1")], floor.now)
    floor.carry_out()
    assert floor.seats[b].turns


# ---------------------------------------------------------------------------------------------- claims
def claimed() -> tuple[Floor, int, int, int]:
    """Let a gang of two GPUs wait for the holder of the first, and a single container for the second."""
    floor = Floor(RR, gpus=2)
    holder = holding(floor, "holder", 1)
    gang = holding(floor, "gang", 1, 2)
    return floor, holder, gang, join(floor, "single", 2)


def test_a_gang_that_is_first_everywhere_claims_all_its_gpus() -> None:
    floor, _, gang, _ = claimed()
    request = wish_of(floor, gang)

    assert [floor.turns.gpu(uuid).claim for uuid in ("GPU-1", "GPU-2")] == [request, request]
    assert request.drain_at == pytest.approx(1.0)


def test_a_claim_leaves_time_for_others_only_before_it_drains() -> None:
    floor, _, _, single = claimed()
    floor.pass_time(0.5)
    want(floor, single)
    assert floor.open_on("GPU-2") == ["single"]


def test_a_claim_that_drains_soon_keeps_others_out() -> None:
    floor, _, _, single = claimed()
    floor.pass_time(0.995)
    want(floor, single)
    assert floor.open_on("GPU-2") == []


def test_those_in_the_way_of_a_claim_yield_at_one_moment_and_the_gang_gets_both() -> None:
    floor, holder, gang, single = claimed()
    want(floor, single)
    floor.pass_time(0.99)
    assert not floor.seats[holder].asked | floor.seats[single].asked

    floor.pass_time(0.02)
    assert floor.seats[holder].asked
    assert floor.seats[single].asked
    floor.answer_yields()
    assert {gpu for grant in floor.seats[gang].turns.values() for gpu in grant.gpus} == {"GPU-1", "GPU-2"}


def test_a_claim_that_is_given_up_opens_what_is_free_and_is_taken_again() -> None:
    floor, _, gang, single = claimed()
    floor.pass_time(0.995)
    want(floor, single)
    request = wish_of(floor, gang)
    floor.turns.grants.give_up_claim(request)

    assert request.drain_at is None
    assert [floor.turns.gpu(uuid).claim for uuid in ("GPU-1", "GPU-2")] == [None, None]
    assert floor.turns.next_alarm() == -float("inf")
    floor.pass_time(0.0)
    assert request.drain_at is not None


@pytest.mark.parametrize("change", ["pause", "policy"])
def test_a_pause_and_another_policy_give_up_a_claim(change: str) -> None:
    floor, _, gang, single = claimed()
    request = wish_of(floor, gang)
    if change == "pause":
        operator.pause(floor.turns, [floor.turns.gpu("GPU-1")], floor.now)
    else:
        operator.set_policy(floor.turns, POLICIES["priority"], floor.now)
    floor.carry_out()
    want(floor, single)
    floor.pass_time(0.0)

    paused = change == "pause"
    assert (request.drain_at is None) is paused
    assert (floor.turns.gpu("GPU-2").claim is None) is paused
    assert floor.open_on("GPU-2") == ["single"]


def test_a_wish_that_is_dropped_takes_its_claim_with_it() -> None:
    floor, _, gang, _ = claimed()
    floor.leave(gang)

    assert [floor.turns.gpu(uuid).claim for uuid in ("GPU-1", "GPU-2")] == [None, None]


def test_a_claim_keeps_its_gpu_from_a_gang_that_has_come_to_stand_before_it() -> None:
    floor = Floor(replace(RR, policy=POLICIES["priority"]), gpus=3)
    for number in (1, 3):
        holding(floor, f"holder{number}", number, priority=9)
    first = wish_of(floor, holding(floor, "first", 1, 2, priority=1))
    later = wish_of(floor, holding(floor, "later", 2, 3, priority=5))

    assert floor.turns.gpu("GPU-2").queue.top() is later
    assert [floor.turns.gpu(f"GPU-{number}").claim for number in (1, 2, 3)] == [first, first, None]
    assert later.drain_at is None


# ---------------------------------------------------------------------------------------------- an earlier daemon
def test_a_gpu_is_open_at_the_very_moment_at_which_the_time_to_come_back_ends() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "gone", 1)
    b = holding(floor, "b", 1)
    floor.restart()
    floor.come_back(b)
    want(floor, b)
    floor.pass_time(RR.announce + RR.grace)
    gpu = floor.turns.gpu("GPU-1")

    assert floor.open_on("GPU-1") == ["b"]
    assert (gpu.missing, gpu.closed_until) == ({}, -float("inf"))


def test_a_claim_is_taken_at_the_very_moment_at_which_the_time_to_come_back_ends() -> None:
    floor = Floor(Rules(policy=POLICIES["rr"]), capacity=16 << 30, gpus=1)
    for key in "ab":
        holding(floor, key, 1, quantum=100.0)
    gpu = floor.turns.gpu("GPU-1")
    gpu.closed_until, gpu.missing = 7.0, {"gone": [9]}
    large = join(floor, "large", 1)
    floor.turns.using(large, Using("GPU-1", 15 << 30, 0), floor.now)
    want(floor, large)
    floor.pass_time(6.9)
    assert gpu.claim is None

    floor.pass_time(0.2)
    assert gpu.claim is wish_of(floor, large)


def test_the_gate_names_processes_that_have_not_come_back_as_long_as_they_may() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    gpu = floor.turns.gpu("GPU-1")
    gpu.closed_until, gpu.missing = 7.0, {"a": [9], "b": [8]}
    join(floor, "a", 1)
    assert floor.footprint["GPU-1"]["a"] == (1, 2, 9)

    floor.turns.grants.end(gpu.holders[0], floor.now)
    (gate,) = [order for order in floor.turns.take_orders() if isinstance(order, SetGate)]
    assert (gate.word, gate.pids) == (0, (9,))


def test_a_container_is_accounted_for_though_another_holds_its_gpu() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    gpu = floor.turns.gpu("GPU-1")
    gpu.closed_until, gpu.missing = 7.0, {"b": [8]}
    floor.turns.grants.account_for(gpu, "b")

    assert floor.turns.take_orders() == [Accounted("b", "GPU-1")]
    assert gpu.closed_until == -float("inf")


def test_a_process_without_a_pid_is_waited_for_until_its_time_is_over() -> None:
    floor = Floor(RR, gpus=1)
    gpu = floor.turns.gpu("GPU-1")
    gpu.closed_until, gpu.missing = 7.0, {"a": [UNKNOWN]}
    floor.turns.join(1, Container(key="a", gpus=("GPU-1",)))
    floor.turns.came_back(1, floor.now)
    assert gpu.missing == {"a": [UNKNOWN]}

    assert [_was_there(gpu, "c", now) for now in (6.9, 7.0)] == [False, True]


def test_a_holder_does_not_go_on_with_a_gpu_that_is_paused() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    floor.restart()
    operator.pause(floor.turns, [floor.turns.gpu("GPU-1")], floor.now)
    floor.come_back(a)

    assert floor.open_on("GPU-1") == []
    assert [order for order in floor.history if "Revoked(" in order]


# ---------------------------------------------------------------------------------------------- age
def test_a_wish_that_was_passed_over_often_enough_goes_first() -> None:
    rules = Rules(policy=POLICIES["sjf"], quantum=1.0, side_by_side=False, age_turns=2)
    floor = Floor(rules, gpus=1)
    long, *short = (join(floor, key, 1) for key in "labc")
    floor.turns.containers["l"].shares["GPU-1"].burst = 100.0
    want(floor, short[0])
    for process in (long, *short[1:]):
        want(floor, process)
    order = []
    for _ in range(12):
        (holder,) = floor.open_on("GPU-1")
        order.append(holder)
        process = next(one for one, seat in floor.seats.items() if seat.container == holder)
        floor.pass_time(0.002)
        floor.done(process, turn_of(floor, process), "idle")
        want(floor, process)

    assert order.index("l") == 1 + rules.age_turns * 4  # four containers; the first grant was before it came


@pytest.mark.parametrize(("passed_over", "aged"), [(3, False), (4, True)])
def test_a_wish_ages_at_so_many_grants_a_container(passed_over: int, aged: bool) -> None:
    rules = Rules(policy=POLICIES["sjf"], side_by_side=False, age_turns=2)
    floor = Floor(rules, gpus=1)
    holding(floor, "a", 1)
    b = holding(floor, "b", 1)
    gpu, request = floor.turns.gpu("GPU-1"), wish_of(floor, b)
    gpu.grants = request.snapshots["GPU-1"].grants + passed_over
    floor.turns.grants._age_oldest(gpu, floor.now)

    assert request.aged is aged
    assert gpu.queue.top() is request


def test_under_a_policy_without_age_only_gangs_age() -> None:
    floor = Floor(Rules(policy=replace(POLICIES["sjf"], ages=False), side_by_side=False), gpus=2)
    holding(floor, "a", 1)
    waiting = [holding(floor, "b", 1), holding(floor, "g", 1, 2)]
    gpu = floor.turns.gpu("GPU-1")
    gpu.grants = 1000
    for process in waiting:
        floor.turns.grants._age_oldest(gpu, floor.now)
        assert not wish_of(floor, process).aged
    floor.leave(waiting[0])
    floor.turns.grants._age_oldest(gpu, floor.now)

    assert wish_of(floor, waiting[1]).aged


# ---------------------------------------------------------------------------------------------- what is counted
def test_a_turn_is_counted_with_its_wait_and_charged_by_weight() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1, weight=200)
    b = holding(floor, "b", 1, weight=50)
    floor.pass_time(0.5)
    floor.done(a, turn_of(floor, a), "idle")
    floor.pass_time(0.25)
    floor.done(b, turn_of(floor, b), "idle")
    first, second = (floor.turns.containers[key].shares["GPU-1"] for key in "ab")

    assert (first.turns, first.waited, first.held, first.virtual) == (1, 0.0, 0.5, 0.25)
    assert (second.turns, second.waited, second.held) == (1, 0.5, 0.25)
    assert first.burst == pytest.approx(0.3 * 0.5)
    assert floor.turns.gpu("GPU-1").grants == floor.turns.gpu("GPU-1").switches == 2
    assert floor.turns.gpu("GPU-1").busy.total == 0.75


def test_a_wait_and_a_turn_are_counted_from_their_own_beginnings() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    floor.pass_time(0.25)
    b = holding(floor, "b", 1)
    floor.pass_time(0.5)
    floor.done(a, turn_of(floor, a), "idle")
    floor.pass_time(0.125)
    floor.done(b, turn_of(floor, b), "idle")
    share = floor.turns.containers["b"].shares["GPU-1"]

    assert (share.waited, share.held) == (0.5, 0.125)
    assert share.burst == pytest.approx(0.3 * 0.125)


def test_the_same_holder_again_is_no_switch() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    floor.done(a, turn_of(floor, a), "idle")
    want(floor, a)

    assert (floor.turns.gpu("GPU-1").grants, floor.turns.gpu("GPU-1").switches) == (2, 1)


def test_every_process_of_the_holder_is_asked() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    again = join(floor, "a", 1)
    holding(floor, "b", 1)
    floor.pass_time(1.0)

    assert floor.seats[a].asked == floor.seats[again].asked != set()


def test_two_side_by_side_share_the_charge_of_the_time() -> None:
    floor = Floor(Rules(), capacity=16 << 30, gpus=1)
    holding(floor, "a", 1)
    holding(floor, "b", 1)
    floor.pass_time(1.0)
    floor.turns.grants.accrue(floor.turns.gpu("GPU-1"), floor.now)

    assert [floor.turns.containers[key].shares["GPU-1"].virtual for key in "ab"] == pytest.approx([0.5, 0.5])
    assert [floor.turns.containers[key].shares["GPU-1"].held for key in "ab"] == [1.0, 1.0]


def test_who_comes_beside_a_holder_shares_the_charge_only_from_then_on() -> None:
    floor = Floor(Rules(), capacity=16 << 30, gpus=1)
    holding(floor, "a", 1)
    floor.pass_time(1.0)
    floor.turns.gpu("GPU-1").clock = 0.0
    b = join(floor, "b", 1)
    want(floor, b)
    begun = floor.turns.containers["b"].shares["GPU-1"].virtual
    floor.pass_time(1.0)
    floor.turns.grants.accrue(floor.turns.gpu("GPU-1"), floor.now)

    a, b_share = (floor.turns.containers[key].shares["GPU-1"] for key in "ab")
    assert (a.virtual, a.held) == pytest.approx((1.5, 2.0))
    assert (b_share.virtual - begun, b_share.held) == pytest.approx((0.5, 1.0))


def test_a_single_holder_is_not_claimed_but_asked_when_its_time_is_over() -> None:
    floor = Floor(Rules(policy=POLICIES["rr"]), capacity=16 << 30, gpus=1)
    holding(floor, "a", 1, quantum=1.0)
    large = join(floor, "large", 1)
    floor.turns.using(large, Using("GPU-1", 20 << 30, 0), floor.now)
    want(floor, large)

    assert floor.open_on("GPU-1") == ["a"]
    assert (floor.turns.gpu("GPU-1").claim, wish_of(floor, large).drain_at) == (None, None)


def test_a_policy_sees_a_holder_as_it_was_brought_to_the_clock() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    holding(floor, "b", 1)
    gpu = floor.turns.gpu("GPU-1")
    gpu.clock = 7.0
    floor.done(a, turn_of(floor, a))

    assert gpu.holders[0].snapshots["GPU-1"].virtual == 7.0


def test_a_turn_that_outlives_a_pause_is_revoked_with_its_reason() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    operator.pause(floor.turns, [floor.turns.gpu("GPU-1")], floor.now)
    floor.carry_out()
    (turn,) = floor.turns.grants.gpus["GPU-1"].holders
    assert turn.reason == "paused"

    floor.pass_time(RR.grace)
    assert any("Revoked(" in order and "'paused'" in order for order in floor.history)


def test_a_container_that_is_to_come_anew_is_granted_nothing() -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    b = holding(floor, "b", 1)
    floor.turns.containers["b"].must_reconnect = True
    (turn,) = floor.turns.grants.gpus["GPU-1"].holders
    floor.turns.grants.end(turn, floor.now)
    floor.turns.grants.settle([floor.turns.gpu("GPU-1")], floor.now)

    assert not floor.seats[b].turns
    assert floor.turns.gpu("GPU-1").holders == []


@pytest.mark.parametrize(("virtual", "expected"), [(1.0, 7.0), (7.0, 7.0), (7.5, 7.5)])
def test_who_is_granted_is_brought_to_the_clock_and_never_back_to_it(virtual: float, expected: float) -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    holding(floor, "b", 1)
    gpu, share = floor.turns.gpu("GPU-1"), floor.turns.containers["b"].shares["GPU-1"]
    share.virtual, gpu.clock = virtual, 7.0
    floor.done(a, turn_of(floor, a))

    assert share.virtual == expected


@pytest.mark.parametrize(("virtual", "expected"), [(6.0, 7.0), (8.0, 8.0), (9.5, 9.5), (300.0, 7.0 + 182.0)])
def test_who_begins_to_wait_is_no_further_from_the_clock_than_one_longest_turn(virtual: float, expected: float) -> None:
    floor = Floor(replace(RR, longest_quantum=180.0, grace=2.0), gpus=1)
    holding(floor, "a", 1)
    b = join(floor, "b", 1)
    floor.turns.containers["a"].shares["GPU-1"].virtual = 7.0
    share = floor.turns.containers["b"].shares["GPU-1"]
    share.virtual, floor.turns.gpu("GPU-1").clock = virtual, 7.0
    want(floor, b)

    assert share.virtual == pytest.approx(expected)


@pytest.mark.parametrize(
    ("holder", "waiter", "expected"),
    [
        pytest.param(5.0, None, 5.0, id="to the holder"),
        pytest.param(5.0, 6.0, 5.0, id="to the holder, who is behind the waiter"),
        pytest.param(6.0, 5.0, 5.0, id="to the waiter, who is behind the holder"),
    ],
)
def test_a_newcomer_begins_with_the_least_served_that_is_present(
    holder: float, waiter: float | None, expected: float
) -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    if waiter is not None:
        b = join(floor, "b", 1)
        floor.turns.containers["b"].shares["GPU-1"].virtual = waiter
        want(floor, b)
    floor.turns.containers["a"].shares["GPU-1"].virtual = holder
    holding(floor, "c", 1)

    assert floor.turns.containers["c"].shares["GPU-1"].virtual == expected


@pytest.mark.parametrize(("virtual", "expected"), [(8.0, 8.0), (8.5, 7.25)])
def test_a_container_less_than_a_second_ahead_of_the_clock_is_left_there(virtual: float, expected: float) -> None:
    floor = Floor(replace(RR, longest_quantum=0.25, grace=0.0), gpus=1)
    holding(floor, "a", 1)
    floor.turns.containers["a"].shares["GPU-1"].virtual = floor.turns.gpu("GPU-1").clock = 7.0
    b = join(floor, "b", 1)
    floor.turns.containers["b"].shares["GPU-1"].virtual = virtual
    want(floor, b)

    assert floor.turns.containers["b"].shares["GPU-1"].virtual == expected


def test_an_overdue_turn_counts_once_on_each_of_its_gpus() -> None:
    floor = Floor(RR, gpus=2)
    holding(floor, "g", 1, 2)
    holding(floor, "b", 1)
    floor.pass_time(1.0 + RR.grace)

    assert [share.overdue for share in floor.turns.containers["g"].shares.values()] == [1, 1]


def test_the_first_turns_gate_says_one_and_the_next_two() -> None:
    floor = Floor(RR, gpus=1)
    a = holding(floor, "a", 1)
    assert (turn_of(floor, a), floor.gates["a", "GPU-1"]) == ("0000000a.1", 1)

    floor.done(a, turn_of(floor, a))
    want(floor, a)
    assert (turn_of(floor, a), floor.gates["a", "GPU-1"]) == ("0000000a.2", 2)


def test_a_gates_word_is_never_zero() -> None:
    floor = Floor(RR, gpus=1)
    floor.turns.grants._counter = 0xFFFFFFFF
    a = join(floor, "a", 1)
    floor.turns.want(a, ("GPU-1",), 0.0)
    (turn,) = floor.turns.gpu("GPU-1").holders

    assert turn.word == 0xFFFFFFFF


@pytest.mark.parametrize(("waits", "clock"), [(False, 0.5), (True, 0.0)])
def test_the_clock_moves_to_the_last_holder_where_nobody_waits(waits: bool, clock: float) -> None:
    floor = Floor(RR, gpus=1)
    holding(floor, "a", 1)
    if waits:
        holding(floor, "b", 1)
    floor.now = 0.5
    (turn,) = floor.turns.gpu("GPU-1").holders
    floor.turns.grants.end(turn, floor.now)

    assert floor.turns.gpu("GPU-1").clock == clock

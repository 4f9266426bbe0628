"""Room on a card for growth and neighbours, claims of aged requests, late jams, gangs that come back whole."""

from typing import Any

import pytest

from contract.words.grammar import AllocationKind, Mode
from schedulerd.core import memory
from schedulerd.core.messages import Held, Reserve, Using
from schedulerd.core.model import MIB, UNKNOWN, UNKNOWN_HOLDER, Container, Request, Rules
from schedulerd.policies import POLICIES
from tests.fakes.containers import Floor

GIB = 1024 * MIB
CARD = 16 * GIB
SMALL = Rules(card_reserve=10, context_bytes=0)
"""A card of 100 bytes has room for 90."""


def join(floor: Floor, key: str, *numbers: int, has: tuple[int, int] = (0, 0), **facts: Any) -> int:
    gpus = tuple(f"GPU-{number}" for number in numbers or (1,))
    process = floor.join(Container(key=key, gpus=gpus, **facts))
    if any(has):
        floor.turns.using(process, Using(gpus[0], *has), floor.now)
        floor.carry_out()
    return process


def reserve(floor: Floor, process: int, size: int) -> None:
    floor.turns.reserve(process, Reserve("GPU-1", size), floor.now)
    floor.carry_out()


# ---------------------------------------------------------------------------------------------- room on a card
@pytest.mark.parametrize(
    ("resting", "fits"),
    [
        pytest.param((35, 15), True, id="what rests and cannot be paged out just leaves room"),
        pytest.param((35, 16), False, id="one byte more does not"),
        pytest.param((15, 0), True, id="all three fit at once"),
    ],
)
def test_beside_a_holder_fits_what_the_resting_leave_room_for(resting: tuple[int, int], fits: bool) -> None:
    floor = Floor(SMALL, capacity=100, gpus=1)
    holder, _ = join(floor, "holder", has=(35, 5)), join(floor, "resting", has=resting)
    join(floor, "candidate", has=(30, 5))
    floor.want(holder, "GPU-1")

    assert memory.fits_beside(SMALL, floor.turns.gpu("GPU-1"), floor.turns.containers["candidate"]) is fits


def test_a_holder_that_is_alone_may_outgrow_the_card() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    a = join(floor, "a", has=(6 * GIB, 0))
    floor.want(a, "GPU-1")
    reserve(floor, a, 20 * GIB)

    assert floor.reserved[a] == 20 * GIB


def test_a_container_without_a_turn_may_grow_whatever_rests_on_the_card() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    join(floor, "plain", has=(12 * GIB, 0), allocation=AllocationKind.PLAIN)
    b = join(floor, "b")
    reserve(floor, b, 12 * GIB)

    assert floor.reserved[b] == 12 * GIB


def test_a_holder_that_outgrows_the_card_keeps_it_and_the_others_are_asked() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    a, b = (join(floor, key, has=(6 * GIB, 0)) for key in "ab")
    for process in (a, b):
        floor.want(process, "GPU-1")
    reserve(floor, a, 12 * GIB)

    assert (bool(floor.seats[a].asked), bool(floor.seats[b].asked)) == (False, True)


def test_growth_of_a_container_without_a_turn_asks_no_holder_to_yield() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    holders = [join(floor, key, has=(6 * GIB, 0)) for key in "ab"]
    for process in holders:
        floor.want(process, "GPU-1")
    reserve(floor, join(floor, "c"), 12 * GIB)

    assert not any(floor.seats[process].asked for process in holders)


def test_a_gang_that_is_too_large_for_one_of_its_cards_shares_none() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=2)
    floor.want(join(floor, "small", 1), "GPU-1")
    gang = join(floor, "gang", 2, 1, mode=Mode.GANG, has=(20 * GIB, 0))
    floor.want(gang, "GPU-1", "GPU-2")

    assert (floor.open_on("GPU-1"), floor.open_on("GPU-2")) == (["small"], [])


def test_a_gang_does_not_join_a_holder_that_went_on_alone() -> None:
    floor = Floor(Rules(side_by_side=False), capacity=CARD, gpus=2)
    floor.want(holder := join(floor, "holder", 2), "GPU-2")
    floor.restart()
    floor.turns.grants.rules = Rules()
    floor.come_back(holder)
    floor.want(join(floor, "gang", 1, 2, mode=Mode.GANG), "GPU-1", "GPU-2")

    assert (floor.open_on("GPU-1"), floor.open_on("GPU-2")) == ([], ["holder"])


# ---------------------------------------------------------------------------------------------- claims and age
def test_a_claim_drains_when_the_last_holder_in_its_way_has_had_its_time() -> None:
    floor = Floor(Rules(policy=POLICIES["rr"], quantum=1.0, side_by_side=False), gpus=2)
    floor.want(join(floor, "early", 1), "GPU-1")
    floor.pass_time(0.5)
    floor.want(join(floor, "late", 2), "GPU-2")
    floor.want(join(floor, "gang", 1, 2, mode=Mode.GANG), "GPU-1", "GPU-2")

    assert floor.turns.containers["gang"].requests["GPU-1"].drain_at == pytest.approx(1.5)


def test_those_side_by_side_in_the_way_of_a_claim_are_asked_at_one_moment() -> None:
    floor = Floor(Rules(policy=POLICIES["rr"]), capacity=CARD, gpus=1)
    early, late = (join(floor, key, has=(5 * GIB, 0), quantum=1.0) for key in ("early", "late"))
    floor.want(early, "GPU-1")
    floor.pass_time(0.5)
    floor.want(late, "GPU-1")
    floor.want(join(floor, "large", has=(14 * GIB, 0), quantum=1.0), "GPU-1")
    floor.pass_time(0.9)
    assert not floor.seats[early].asked | floor.seats[late].asked

    floor.pass_time(0.2)
    assert floor.seats[early].asked
    assert floor.seats[late].asked


def test_a_gang_behind_a_single_container_does_not_lengthen_the_turn_before_it() -> None:
    floor = Floor(Rules(policy=POLICIES["fair"], quantum=1.0, side_by_side=False), gpus=2)
    holder = join(floor, "holder")
    floor.want(holder, "GPU-1")
    gang = join(floor, "gang", 1, 2, mode=Mode.GANG)
    floor.turns.containers["gang"].shares["GPU-1"].virtual = 10.0
    floor.want(join(floor, "single"), "GPU-1")
    floor.want(gang, "GPU-1", "GPU-2")
    floor.pass_time(1.0)

    assert floor.seats[holder].asked


def test_a_holder_is_told_once_however_many_come_to_wait() -> None:
    floor = Floor(Rules(policy=POLICIES["rr"], quantum=1.0, side_by_side=False), gpus=1)
    for key in ("holder", "a"):
        floor.want(join(floor, key), "GPU-1")
    floor.pass_time(0.1)
    floor.turns.grants.settle([floor.turns.gpu("GPU-1")], floor.now)
    floor.carry_out()

    assert len([order for order in floor.history if "message=Wanted(" in order]) == 1


def test_a_gang_that_is_passed_over_ages_under_a_policy_without_age_too() -> None:
    floor = Floor(Rules(policy=POLICIES["fair"], quantum=1.0, side_by_side=False, age_turns=1), gpus=2)
    singles = [join(floor, key) for key in "ab"]
    for process in singles:
        floor.want(process, "GPU-1")
    gang = join(floor, "gang", 1, 2, mode=Mode.GANG)
    floor.turns.containers["gang"].shares["GPU-1"].virtual = 100.0
    floor.want(gang, "GPU-1", "GPU-2")
    request: Request = floor.turns.containers["gang"].requests["GPU-1"]
    aged = []
    for _ in range(3):
        (key,) = floor.open_on("GPU-1")
        process = singles["ab".index(key)]
        floor.done(process, next(iter(floor.seats[process].turns)), "idle")
        floor.want(process, "GPU-1")
        aged.append(request.aged)

    assert aged == [False, False, True]  # three containers on the GPU


def test_a_request_ages_once_and_keeps_its_place() -> None:
    floor = Floor(Rules(policy=POLICIES["sjf"], side_by_side=False), gpus=1)
    for key in "habc":
        floor.want(join(floor, key), "GPU-1")
    gpu = floor.turns.gpu("GPU-1")
    gpu.grants += 1000
    for _ in range(3):
        floor.turns.grants._age_oldest(gpu, floor.now)

    assert [request.container.facts.key for request in gpu.queue.in_order()] == ["a", "b", "c"]


def test_a_claim_that_ages_drains_after_a_quantum_and_not_after_the_policys_patience() -> None:
    floor = Floor(Rules(policy=POLICIES["fair"], quantum=1.0, side_by_side=False), gpus=2)
    floor.want(join(floor, "holder", 1), "GPU-1")
    gang = join(floor, "gang", 1, 2, mode=Mode.GANG)
    floor.turns.containers["gang"].shares["GPU-1"].virtual = 10.0
    floor.want(gang, "GPU-1", "GPU-2")
    request: Request = floor.turns.containers["gang"].requests["GPU-1"]
    assert request.drain_at == pytest.approx(10.0)

    gpu = floor.turns.gpu("GPU-1")
    gpu.grants += 1000
    floor.turns.grants._age_oldest(gpu, floor.now)

    assert request.aged
    assert request.drain_at == pytest.approx(1.0)
    assert [floor.turns.gpu(uuid).alarm for uuid in ("GPU-1", "GPU-2")] == [floor.now, floor.now]


# ---------------------------------------------------------------------------------------------- late jams
def asked_early(*waiters: tuple[str, int], probe: float) -> tuple[Floor, int, int]:
    """Let two containers hold a GPU each and wait for each other from 1.75 on.

    A holder for which another container waits was asked to yield at 1.0.
    """
    floor = Floor(Rules(policy=POLICIES["rr"], quantum=1.0, jam=0.5, probe=probe, side_by_side=False), gpus=2)
    a, b = (join(floor, key, 1, 2, mode=Mode.PER_DEVICE) for key in "ab")
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-2")
    for key, number in waiters:
        floor.want(join(floor, key, number), f"GPU-{number}")
    floor.pass_time(1.75)
    floor.want(a, "GPU-2")
    floor.want(b, "GPU-1")
    return floor, a, b


def test_a_ring_of_holders_that_were_asked_long_ago_is_no_jam_before_it_has_lasted() -> None:
    floor, a, b = asked_early(("c", 1), ("d", 2), probe=0.75)
    assert floor.seats[a].asked
    assert floor.seats[b].asked

    floor.pass_time(0.74)  # seen at 2.0, and not yet for half a second
    assert not floor.notices
    floor.pass_time(0.01)
    assert [notice.kind for notice in floor.notices] == ["jam"]


def test_a_ring_is_no_jam_while_one_of_its_holders_was_asked_only_now() -> None:
    floor, _, _ = asked_early(("c", 1), probe=2.0)
    floor.pass_time(1.5)
    assert not floor.notices

    floor.pass_time(0.75)
    assert [notice.kind for notice in floor.notices] == ["jam"]


# ---------------------------------------------------------------------------------------------- gangs that come back
def test_a_gang_goes_on_with_all_its_gpus_as_each_of_its_processes_comes_back() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    processes = [join(floor, "gang", 1, 2, mode=Mode.GANG) for _ in range(2)]
    floor.want(processes[0], "GPU-1", "GPU-2")
    floor.restart()
    for process in processes:
        floor.come_back(process)

    assert floor.open_on("GPU-1") == floor.open_on("GPU-2") == ["gang"]
    assert not [order for order in floor.history if "Revoked(" in order]
    assert all(len(floor.seats[process].turns) == 1 for process in processes)


def test_two_that_shared_a_card_both_go_on_with_it() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    processes = [join(floor, key) for key in "ab"]
    for process in processes:
        floor.want(process, "GPU-1")
    floor.restart()
    for process in processes:
        floor.come_back(process)

    assert sorted(floor.open_on("GPU-1")) == ["a", "b"]


def test_of_two_that_say_they_had_a_card_alone_the_first_is_believed() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    floor.turns.gpu("GPU-1").closed_until, floor.turns.gpu("GPU-1").missing = 7.0, {UNKNOWN_HOLDER: [UNKNOWN]}
    for key in "ab":
        floor.join(Container(key=key, gpus=("GPU-1",)), held=[Held(f"0000000a.{key}", "GPU-1")])

    assert floor.open_on("GPU-1") == ["a"]
    assert [order for order in floor.history if "Revoked(" in order and "0000000a.b" in order]


def test_a_per_device_container_goes_on_with_one_of_its_gpus() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process = join(floor, "a", 1, 2, mode=Mode.PER_DEVICE)
    floor.want(process, "GPU-2")
    floor.restart()
    floor.come_back(process)

    assert (floor.open_on("GPU-1"), floor.open_on("GPU-2")) == ([], ["a"])

"""Side by side where it fits, long turns where it does not, and growth that is reserved first."""

from typing import Any

import pytest

from contract.words.grammar import AllocationKind
from schedulerd.core import memory, operator
from schedulerd.core.messages import Reserve, Using
from schedulerd.core.model import MIB, Container, Rules
from schedulerd.errors import NoMemory
from tests.fakes.containers import Floor

GIB = 1024 * MIB
CARD = 16 * GIB


@pytest.fixture
def floor() -> Floor:
    return Floor(Rules(), capacity=CARD, gpus=1)


def join(floor: Floor, key: str, *, has: int = 0, **facts: Any) -> Any:
    process = floor.join(Container(key=key, gpus=("GPU-1",), **facts))
    use(floor, process, has)
    return process


def use(floor: Floor, process: int, size: int) -> None:
    floor.turns.using(process, Using("GPU-1", size, 0), floor.now)
    floor.carry_out()


def reserve(floor: Floor, process: int, size: int) -> None:
    floor.turns.reserve(process, Reserve("GPU-1", size), floor.now)
    floor.carry_out()


def test_two_that_fit_run_side_by_side(floor: Floor) -> None:
    a, b = join(floor, "a", has=6 * GIB), join(floor, "b", has=6 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")

    assert sorted(floor.open_on("GPU-1")) == ["a", "b"]
    assert all(grant.shared for seat in floor.seats.values() for grant in seat.turns.values())


def test_two_that_do_not_fit_take_turns(floor: Floor) -> None:
    a, b = join(floor, "a", has=12 * GIB), join(floor, "b", has=12 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")

    assert floor.open_on("GPU-1") == ["a"]


def test_contexts_count_though_nobody_reports_them() -> None:
    floor = Floor(Rules(context_bytes=1 * GIB, card_reserve=0), capacity=CARD, gpus=1)
    a, b = join(floor, "a", has=7 * GIB + MIB), join(floor, "b", has=7 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")

    assert floor.open_on("GPU-1") == ["a"]


def test_a_card_of_unknown_size_is_nobodys_to_share() -> None:
    floor = Floor(Rules(), capacity=None, gpus=1)
    a, b = join(floor, "a"), join(floor, "b")
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")

    assert floor.open_on("GPU-1") == ["a"]


def test_never_means_never() -> None:
    floor = Floor(Rules(side_by_side=False), capacity=CARD, gpus=1)
    a, b = join(floor, "a"), join(floor, "b")
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")

    assert floor.open_on("GPU-1") == ["a"]


def test_a_big_one_is_served_though_small_ones_could_share_for_ever(floor: Floor) -> None:
    small = [join(floor, key, has=5 * GIB) for key in "ab"]
    big = join(floor, "big", has=14 * GIB)
    for process in (*small, big):
        floor.want(process, "GPU-1")
    for _ in range(30):
        floor.pass_time(5.0)
        floor.answer_yields()
        for process in small:
            floor.want(process, "GPU-1")
        if floor.open_on("GPU-1") == ["big"]:
            return
    raise AssertionError("the big one waits for ever")


def test_growth_is_granted_when_the_neighbours_have_left(floor: Floor) -> None:
    a, b = join(floor, "a", has=6 * GIB), join(floor, "b", has=6 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")
    reserve(floor, a, 12 * GIB)
    assert a not in floor.reserved

    floor.answer_yields()
    assert floor.reserved[a] == 12 * GIB


def test_growth_that_fits_is_granted_at_once(floor: Floor) -> None:
    a, b = join(floor, "a", has=6 * GIB), join(floor, "b", has=6 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")
    reserve(floor, a, 7 * GIB)

    assert floor.reserved[a] == 7 * GIB
    assert not floor.seats[b].asked


def test_neighbours_are_asked_for_growth_that_was_not_reserved_too(floor: Floor) -> None:
    a, b = join(floor, "a", has=6 * GIB), join(floor, "b", has=6 * GIB)
    for process in (a, b):
        floor.want(process, "GPU-1")
    use(floor, a, 12 * GIB)

    assert (bool(floor.seats[a].asked), bool(floor.seats[b].asked)) == (False, True)


def test_two_that_both_outgrow_the_card_do_not_wait_for_each_other(floor: Floor) -> None:
    a, b = join(floor, "a", has=6 * GIB), join(floor, "b", has=6 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")
    reserve(floor, a, 12 * GIB)
    reserve(floor, b, 12 * GIB)
    floor.answer_yields()

    assert floor.reserved == {a: 12 * GIB, b: 12 * GIB}


def test_nobody_grows_beyond_its_cap(floor: Floor) -> None:
    a = join(floor, "a", memory=4 * GIB)

    with pytest.raises(NoMemory):
        reserve(floor, a, 4 * GIB + 1)


def test_what_cannot_be_paged_must_fit_the_card(floor: Floor) -> None:
    join(floor, "a", has=10 * GIB, allocation=AllocationKind.PLAIN)
    b = join(floor, "b", allocation=AllocationKind.PLAIN)

    with pytest.raises(NoMemory):
        reserve(floor, b, 8 * GIB)


def test_on_a_card_of_unknown_size_no_growth_is_refused() -> None:
    floor = Floor(Rules(), capacity=None, gpus=1)
    a = join(floor, "a", allocation=AllocationKind.PLAIN)
    reserve(floor, a, 80 * GIB)

    assert floor.reserved[a] == 80 * GIB


def turn_of(floor: Floor, process: int) -> Any:
    floor.want(process, "GPU-1")
    (grant,) = floor.seats[process].turns.values()
    return grant.quantum_ms / 1000


def test_turns_are_short_where_all_fits(floor: Floor) -> None:
    assert turn_of(floor, join(floor, "a", has=6 * GIB)) == pytest.approx(0.1)


def test_turns_are_so_long_that_switching_costs_two_percent_until_the_first_pause_will_do() -> None:
    rules = Rules(paging_rate=5e9)
    floor = Floor(rules, capacity=CARD, gpus=1)
    a, _ = join(floor, "a", has=12 * GIB), join(floor, "b", has=12 * GIB)
    (gpu,) = floor.turns.grants.gpus.values()
    cost = memory.switch_seconds(rules, gpu, floor.turns.containers["a"].shares["GPU-1"])

    assert cost > 1.0
    assert turn_of(floor, a) == pytest.approx(cost / 0.02 * 1.25, rel=0.01)


@pytest.mark.parametrize(
    ("facts", "fixed", "seconds"),
    [
        pytest.param({"quantum": 7.0}, None, 7.0, id="by annotation"),
        pytest.param({}, 3.0, 3.0, id="by the operator"),
        pytest.param({"quantum": 7.0}, 3.0, 7.0, id="the annotation goes before"),
    ],
)
def test_a_fixed_turn_is_kept(floor: Floor, facts: Any, fixed: Any, seconds: float) -> None:
    a = join(floor, "a", has=12 * GIB, **facts)
    join(floor, "b", has=12 * GIB)
    operator.set_quantum(floor.turns, None, fixed, floor.now)

    assert turn_of(floor, a) == pytest.approx(seconds)


def test_memory_of_the_dead_counts_no_more(floor: Floor) -> None:
    a, b = join(floor, "a", has=12 * GIB), join(floor, "b", has=12 * GIB)
    floor.want(a, "GPU-1")
    floor.leave(b)
    (gpu,) = floor.turns.grants.gpus.values()

    assert gpu.needed == 12 * GIB + floor.turns.rules.context_bytes


PLAIN = AllocationKind.PLAIN


def promised_and_gone(floor: Floor, a: int, _mate: int) -> None:
    """Let the process die; another process of its container lives on, with no memory."""
    reserve(floor, a, 12 * GIB)
    use(floor, a, 12 * GIB)
    floor.leave(a)


def promised_and_freed(floor: Floor, a: int, _mate: int) -> None:
    reserve(floor, a, 12 * GIB)
    use(floor, a, 12 * GIB)
    use(floor, a, 0)


def promised_and_freed_by_another(floor: Floor, a: int, mate: int) -> None:
    reserve(floor, a, 12 * GIB)
    reserve(floor, mate, 4 * GIB)
    use(floor, mate, 1 * GIB)
    use(floor, mate, 0)


@pytest.mark.parametrize(
    ("happens", "counted"),
    [
        pytest.param(promised_and_gone, 0, id="who was promised it is gone"),
        pytest.param(promised_and_freed, 0, id="it has been freed"),
        pytest.param(promised_and_freed_by_another, 12 * GIB, id="what another one frees does not matter"),
    ],
)
def test_what_was_reserved_counts_until_it_is_given_back(floor: Floor, happens: Any, counted: int) -> None:
    a, mate = (join(floor, "a", allocation=PLAIN) for _ in range(2))
    happens(floor, a, mate)
    (gpu,) = floor.turns.grants.gpus.values()

    assert gpu.needed == counted + floor.turns.rules.context_bytes * len(floor.seats)


def test_neighbours_may_have_what_was_given_back(floor: Floor) -> None:
    a = join(floor, "a", allocation=PLAIN)
    mate, b = join(floor, "a", allocation=PLAIN), join(floor, "b", allocation=PLAIN)
    promised_and_gone(floor, a, mate)
    reserve(floor, b, 8 * GIB)

    assert floor.reserved[b] == 8 * GIB


def test_a_promise_that_is_still_waited_for_is_not_given_back_by_freeing(floor: Floor) -> None:
    a, b = join(floor, "a", has=6 * GIB), join(floor, "b", has=6 * GIB)
    floor.want(a, "GPU-1")
    floor.want(b, "GPU-1")
    reserve(floor, a, 12 * GIB)
    use(floor, a, 5 * GIB)
    floor.answer_yields()
    (gpu,) = floor.turns.grants.gpus.values()

    assert floor.reserved[a] == 12 * GIB
    assert gpu.containers["a"].shares["GPU-1"].allocated == 12 * GIB

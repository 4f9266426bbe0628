"""What a process answers and how it leaves: parts of a turn, busy times, slots, caps, joins of returning processes."""

from typing import Any

import pytest

from contract.wire.shared_memory import LEDGER_SLOTS
from contract.words.grammar import Mode
from schedulerd.core.deadlock import could_jam, waits_for
from schedulerd.core.messages import Done, Held, Using
from schedulerd.core.model import Container, FreeSlot, Rules, SetGate
from schedulerd.errors import TooMany
from tests.fakes.containers import Floor

GIB = 1 << 30


def join(floor: Floor, key: str, *numbers: int, **facts: Any) -> int:
    return floor.join(Container(key=key, gpus=tuple(f"GPU-{number}" for number in numbers), **facts))


def gang(floor: Floor, key: str = "gang") -> tuple[int, str]:
    """Let a gang have two GPUs; return its process and its turn."""
    process = join(floor, key, 1, 2, mode=Mode.GANG)
    floor.want(process, "GPU-1", "GPU-2")
    (turn,) = floor.seats[process].turns
    return process, turn


# ---------------------------------------------------------------------------------------------- done
def test_a_turn_ends_when_a_process_has_answered_for_each_of_its_gpus() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process, turn = gang(floor)
    floor.turns.done(process, Done(turn, gpus=("GPU-2",)), floor.now)
    assert floor.turns.grants.turns[turn].processes_running == {process: ("GPU-1",)}
    assert floor.turns.gpu("GPU-2").holders != []

    floor.turns.done(process, Done(turn, gpus=("GPU-1", "GPU-2")), floor.now)
    assert floor.turns.grants.turns == {}


def test_an_answer_for_a_turn_that_is_over_is_no_trouble() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process, turn = gang(floor)
    other = join(floor, "other", 1)
    floor.turns.done(process, Done("0000000a.99"), floor.now)
    floor.turns.done(other, Done(turn), floor.now)

    assert list(floor.turns.grants.turns) == [turn]


@pytest.mark.parametrize(
    ("said_us", "each"),
    [
        pytest.param(0, 0.0, id="nothing said"),
        pytest.param(500_000, 0.25, id="half a second on two GPUs"),
        pytest.param(9_000_000, 1.0, id="at most the turn"),
    ],
)
def test_how_long_a_gang_was_busy_is_counted_in_equal_parts(said_us: int, each: float) -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process, turn = gang(floor)
    floor.pass_time(1.0)
    floor.turns.done(process, Done(turn, busy_us=said_us), floor.now)

    assert [share.busy for share in floor.turns.containers["gang"].shares.values()] == [each, each]


@pytest.mark.parametrize(("reason", "burst"), [("idle", 0.3), ("yield", 0.0)])
def test_only_a_holder_that_fell_idle_has_ended_its_burst(reason: str, burst: float) -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process, turn = gang(floor)
    floor.pass_time(1.0)
    floor.done(process, turn, reason)

    assert floor.turns.containers["gang"].shares["GPU-1"].burst == pytest.approx(burst)


# ---------------------------------------------------------------------------------------------- leaving
def test_the_next_daemon_waits_only_for_the_processes_that_stay() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=1)
    first, second = (join(floor, "a", 1) for _ in range(2))
    floor.want(first, "GPU-1")
    floor.turns.take_orders()
    floor.turns.leave(first, floor.now)

    gates = [order for order in floor.turns.take_orders() if isinstance(order, SetGate)]
    assert [(gate.word != 0, gate.pids) for gate in gates] == [(True, (second,))]


def test_the_slot_of_a_process_that_has_gone_is_freed() -> None:
    floor = Floor(Rules(), gpus=1)
    _, second = (join(floor, "a", 1) for _ in range(2))
    floor.turns.take_orders()
    floor.turns.leave(second, floor.now)

    assert FreeSlot("a", 1) in floor.turns.take_orders()


def test_a_holder_whose_last_process_leaves_has_not_fallen_idle() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=1)
    first, second = (join(floor, "a", 1) for _ in range(2))
    floor.want(first, "GPU-1")
    floor.pass_time(1.0)
    floor.done(second, next(iter(floor.seats[second].turns)))
    floor.leave(first)
    share = floor.turns.containers["a"].shares["GPU-1"]

    assert floor.turns.grants.turns == {}
    assert (share.burst, share.burst_so_far) == (0.0, 1.0)


@pytest.mark.parametrize("mode", [Mode.GANG, Mode.PER_DEVICE])
def test_a_container_that_comes_again_is_a_gang_only_if_it_was_one(mode: Mode) -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    floor.leave(join(floor, "a", 1, 2, mode=mode))
    join(floor, "a", 1, 2, mode=Mode.PER_DEVICE)

    assert floor.turns.containers["a"].gang is (mode is Mode.GANG)


def test_sixty_four_lists_of_gpus_are_remembered_for_a_container_and_no_more() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=7)
    names = [f"GPU-{number}" for number in range(1, 8)]
    process = join(floor, "a", *range(1, 8), mode=Mode.PER_DEVICE)
    for choice in range(1, 80):
        floor.turns.want(process, tuple(name for bit, name in enumerate(names) if choice >> bit & 1), floor.now)

    assert len(floor.turns.containers["a"].groups) == 64
    assert floor.turns.gpu("GPU-7").holders != []


def test_a_request_lives_as_long_as_one_of_its_processes() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=1)
    floor.want(join(floor, "holder", 1), "GPU-1")
    first, second = (join(floor, "a", 1) for _ in range(2))
    for process in (first, second):
        floor.want(process, "GPU-1")
    floor.leave(first)
    assert len(floor.turns.gpu("GPU-1").queue) == 1

    floor.leave(second)
    assert len(floor.turns.gpu("GPU-1").queue) == 0
    floor.turns.leave(second, floor.now)  # again: no trouble


# ---------------------------------------------------------------------------------------------- slots, caps
def test_the_first_free_slot_is_given_and_one_too_many_is_refused() -> None:
    floor = Floor(Rules(), gpus=1)
    facts = Container(key="a", gpus=("GPU-1",))
    slots = [floor.turns.join(process, facts, pid=process) for process in range(1, LEDGER_SLOTS + 1)]
    assert slots == list(range(LEDGER_SLOTS))
    with pytest.raises(TooMany, match=str(LEDGER_SLOTS)):
        floor.turns.join(1000, facts, pid=1000)

    floor.turns.leave(4, 0.0)
    assert floor.turns.join(1001, facts, pid=1001) == 3


@pytest.mark.parametrize(
    ("pageable", "unpageable", "cap", "told"),
    [
        pytest.param(3 * GIB, GIB, 4 * GIB, False, id="just the cap"),
        pytest.param(3 * GIB, GIB + 1, 4 * GIB, True, id="one byte more"),
        pytest.param(9 * GIB, GIB, None, False, id="no cap"),
    ],
)
def test_operators_are_told_once_of_a_container_above_its_cap(
    pageable: int, unpageable: int, cap: int | None, told: bool
) -> None:
    floor = Floor(Rules(), gpus=1)
    process = join(floor, "a", 1, memory=cap)
    for _ in range(2):
        floor.turns.using(process, Using("GPU-1", pageable, unpageable), floor.now)
        floor.carry_out()

    found = [(notice.kind, notice.containers, notice.gpus) for notice in floor.notices]
    assert found == ([("above-cap", ("a",), ("GPU-1",))] if told else [])


# ---------------------------------------------------------------------------------------------- who waits for whom
def test_a_gang_and_a_container_without_a_turn_wait_for_nobody_in_a_ring() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    gang(floor)
    waiting = join(floor, "waiting", 1, 2, mode=Mode.PER_DEVICE)
    floor.want(waiting, "GPU-1")

    assert [waits_for(container) for container in floor.turns.containers.values()] == [[], []]
    assert not any(map(could_jam, floor.turns.containers.values()))


def test_a_container_that_holds_nothing_is_in_no_ring_whoever_has_the_gpu() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    floor.want(join(floor, "single", 1), "GPU-1")
    floor.want(join(floor, "waiting", 1, 2, mode=Mode.PER_DEVICE), "GPU-1")

    assert waits_for(floor.turns.containers["waiting"]) == []


def test_a_container_that_holds_one_gpu_waits_for_the_holder_of_another_but_not_for_a_gang() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=4)
    gang(floor)
    floor.want(join(floor, "single", 3), "GPU-3")
    process = join(floor, "a", 1, 3, 4, mode=Mode.PER_DEVICE)
    floor.want(process, "GPU-4", "GPU-1", "GPU-3")
    container = floor.turns.containers["a"]

    assert [turn.container.facts.key for turn in waits_for(container)] == ["single"]
    assert could_jam(container)


# ---------------------------------------------------------------------------------------------- going on
def test_a_request_is_dropped_when_another_process_goes_on_with_all_its_gpus() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=1)
    floor.turns.gpu("GPU-1").closed_until, floor.turns.gpu("GPU-1").missing = 7.0, {"a": [2], "b": [9]}
    first = join(floor, "a", 1)
    floor.want(first, "GPU-1")
    assert len(floor.turns.gpu("GPU-1").queue) == 1

    floor.join(Container(key="a", gpus=("GPU-1",)), held=[Held("00000009.1", "GPU-1")])
    assert len(floor.turns.gpu("GPU-1").queue) == 0
    assert floor.open_on("GPU-1") == ["a"]


# ---------------------------------------------------------------------------------------------- reads
def test_how_busy_a_gpu_is_includes_the_turn_that_goes_on() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=1)
    gpu = floor.turns.gpu("GPU-1")
    assert (gpu.uncharged(4.0), gpu.busy_lately(4.0)) == (0.0, 0.0)

    floor.want(join(floor, "a", 1), "GPU-1")
    floor.pass_time(4.0)
    assert gpu.uncharged(floor.now) == 4.0
    assert gpu.uncharged(-1.0) == 0.0
    assert gpu.busy_lately(floor.now) == pytest.approx(0.4)

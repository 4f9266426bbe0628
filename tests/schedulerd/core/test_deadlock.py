"""Per-device containers that wait for each other across GPUs: found within two seconds, then served as gangs."""

from typing import Any

import pytest

from contract.words.grammar import Mode
from schedulerd.core.model import Rules
from schedulerd.policies import POLICIES
from tests.fakes.containers import Floor
from tests.fakes.simulation import worker

PER_DEVICE = Mode.PER_DEVICE


def ring(floor: Floor, size: int) -> Any:
    """Build a ring: each container has one GPU and waits for a partner on the GPU of the next."""
    facts = [worker(f"c{i}", *sorted((1 + i, 1 + (i + 1) % size)), mode=PER_DEVICE).container for i in range(size)]
    processes = [floor.join(one) for one in facts]
    for i, process in enumerate(processes):
        floor.want(process, f"GPU-{1 + i}")
    for i, process in enumerate(processes):
        floor.want(process, f"GPU-{1 + (i + 1) % size}")
    return processes


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("quantum", [pytest.param(0.1, id="short turns"), pytest.param(30.0, id="long turns")])
def test_a_ring_of_waiting_containers_is_found_within_two_seconds(size: int, quantum: float) -> None:
    floor = Floor(Rules(quantum=quantum), gpus=size)
    ring(floor, size)
    floor.pass_time(2.0)

    assert [notice.kind for notice in floor.notices] == ["jam"]
    assert len(floor.notices[0].containers) == size


@pytest.mark.parametrize("policy", ["fair", "fcfs"])
def test_a_ring_is_found_though_all_wished_before_any_was_granted(policy: str) -> None:
    floor = Floor(Rules(policy=POLICIES[policy]), gpus=2)
    before = floor.join(worker("gang", 1, 2).container)
    floor.want(before, "GPU-1", "GPU-2")
    p, q = (floor.join(worker(key, 1, 2, mode=PER_DEVICE).container) for key in "pq")
    for process, gpu in ((p, "GPU-1"), (q, "GPU-2"), (p, "GPU-2"), (q, "GPU-1")):
        floor.want(process, gpu)
    (turn,) = floor.seats[before].turns
    floor.done(before, turn, "idle")
    floor.pass_time(2.0)

    assert [notice.kind for notice in floor.notices] == ["jam"]


def test_the_jammed_get_all_their_gpus_at_once_one_after_the_other() -> None:
    floor = Floor(Rules(quantum=30.0), gpus=2)
    first, second = ring(floor, 2)
    floor.pass_time(2.0)
    (turn,) = floor.seats[first].turns
    assert set(floor.seats[first].turns[turn].gpus) == {"GPU-1", "GPU-2"}

    floor.done(first, turn, "idle")
    assert len(floor.seats[second].turns) == 1


def test_who_jammed_is_a_gang_though_it_ends_and_comes_again() -> None:
    floor = Floor(Rules(quantum=30.0), gpus=2)
    processes = ring(floor, 2)
    floor.pass_time(2.0)
    facts = [floor.turns.members[process].facts for process in processes]
    for process in processes:
        floor.leave(process)
    again = [floor.join(one) for one in facts]
    floor.want(again[0], "GPU-1")

    assert floor.open_on("GPU-2") == [facts[0].key]


def test_containers_that_answer_are_no_jam() -> None:
    """Let two containers with independent work hold GPUs, wait for each other, and yield when asked."""
    floor = Floor(Rules(quantum=30.0), gpus=2)
    ring(floor, 2)
    for _ in range(100):
        floor.pass_time(0.1)
        floor.answer_yields()
        for process, seat in tuple(floor.seats.items()):
            floor.want(
                process, *(gpu for gpu in ("GPU-1", "GPU-2") if not any(gpu in t.gpus for t in seat.turns.values()))
            )

    assert not floor.notices


def test_nothing_is_looked_for_while_nobody_waits_across() -> None:
    floor = Floor(Rules(), gpus=2)
    one = floor.join(worker("one", 1, 2, mode=PER_DEVICE).container)
    floor.want(one, "GPU-1", "GPU-2")

    assert floor.turns.next_alarm() == float("inf")

"""What an operator, the cluster or NVML changes while turns go on, and what each change leaves as it is."""

from typing import Any

import pytest

from contract.words.grammar import AllocationKind, Mode
from schedulerd.core import card_size, operator
from schedulerd.core.messages import Using
from schedulerd.core.model import Container, Rules
from schedulerd.core.node_state import Node
from schedulerd.policies import POLICIES
from tests.fakes.containers import Floor

GIB = 1 << 30
CARD = 16 * GIB


def join(floor: Floor, key: str, *numbers: int, **facts: Any) -> int:
    return floor.join(Container(key=key, gpus=tuple(f"GPU-{number}" for number in numbers), **facts))


def use(floor: Floor, process: int, size: int, uuid: str = "GPU-1") -> None:
    floor.turns.using(process, Using(uuid, size, 0), floor.now)
    floor.carry_out()


# ---------------------------------------------------------------------------------------------- drain
@pytest.mark.parametrize(("at_once", "paused"), [(False, None), (True, "drained")])
def test_a_drained_gpu_is_marked_and_at_once_its_holders_are_asked_too(at_once: bool, paused: str | None) -> None:
    floor = Floor(Rules(), gpus=2)
    process = join(floor, "a", 1)
    floor.want(process, "GPU-1")
    operator.drain(floor.turns, iter([floor.turns.gpu("GPU-1")]), floor.now, at_once=at_once)
    floor.carry_out()

    assert [floor.turns.gpu(uuid).drained for uuid in ("GPU-1", "GPU-2")] == [True, False]
    assert floor.turns.gpu("GPU-1").paused == paused
    assert bool(floor.seats[process].asked) is at_once

    operator.resume(floor.turns, iter([floor.turns.gpu("GPU-1")]), floor.now)
    assert (floor.turns.gpu("GPU-1").drained, floor.turns.gpu("GPU-1").paused) == (False, None)


# ---------------------------------------------------------------------------------------------- policy
def test_another_policy_puts_containers_that_wait_already_into_its_own_order() -> None:
    floor = Floor(Rules(policy=POLICIES["rr"], side_by_side=False), gpus=1)
    for key, priority in (("holder", 0), ("low", 1), ("high", 2)):
        floor.want(join(floor, key, 1, priority=priority), "GPU-1")
    queue = floor.turns.gpu("GPU-1").queue
    assert [request.container.facts.key for request in queue.in_order()] == ["low", "high"]

    operator.set_policy(floor.turns, POLICIES["priority"], floor.now)
    assert [request.container.facts.key for request in queue.in_order()] == ["high", "low"]
    assert floor.turns.rules.policy is POLICIES["priority"]


def test_another_policy_decides_anew_when_the_holders_before_a_gang_yield() -> None:
    floor = Floor(Rules(policy=POLICIES["fair"], quantum=1.0, side_by_side=False), gpus=2)
    floor.want(join(floor, "holder", 1), "GPU-1")
    gang = join(floor, "gang", 1, 2, mode=Mode.GANG)
    floor.turns.containers["gang"].shares["GPU-1"].virtual = 10.0
    floor.want(gang, "GPU-1", "GPU-2")
    request = floor.turns.containers["gang"].requests["GPU-1"]
    assert request.drain_at == pytest.approx(10.0)

    operator.set_policy(floor.turns, POLICIES["rr"], floor.now)
    assert request.drain_at == pytest.approx(1.0)
    assert floor.turns.gpu("GPU-2").claim is request


# ---------------------------------------------------------------------------------------------- quantum
def test_a_quantum_for_all_gpus_takes_away_what_one_of_them_had() -> None:
    floor = Floor(Rules(), gpus=2)
    one = floor.turns.gpu("GPU-1")
    operator.set_quantum(floor.turns, [one], 3.0, floor.now)
    assert (one.fixed_quantum, floor.turns.gpu("GPU-2").fixed_quantum) == (3.0, None)
    assert floor.turns.rules.fixed_quantum is None

    operator.set_quantum(floor.turns, None, 5.0, floor.now)
    found: list[float | None] = [one.fixed_quantum, floor.turns.rules.fixed_quantum]
    assert found == [None, 5.0]


# ---------------------------------------------------------------------------------------------- sizes of cards
def test_a_card_whose_size_comes_late_is_shared_from_then_on() -> None:
    floor = Floor(Rules(), capacity=None, gpus=1)
    processes = [join(floor, key, 1) for key in "ab"]
    use(floor, processes[0], 20 * GIB)
    gpu = floor.turns.gpu("GPU-1")
    floor.want(processes[1], "GPU-1")
    card_size.hear_nvml(floor.turns, gpu, CARD, floor.now)

    assert gpu.capacity == CARD
    assert gpu.needed == CARD + 2 * floor.turns.rules.context_bytes  # no more is believed than the card has


def test_the_same_size_again_changes_nothing() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    process = join(floor, "a", 1)
    share = floor.turns.containers["a"].shares["GPU-1"]
    share.set_using(process, GIB, 0)  # not yet counted
    before = floor.turns.gpu("GPU-1").needed
    card_size.hear_nvml(floor.turns, floor.turns.gpu("GPU-1"), CARD, floor.now)

    assert floor.turns.gpu("GPU-1").needed == before


def test_a_new_size_lets_in_what_fits_now() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    a, b = (join(floor, key, 1) for key in "ab")
    for process in (a, b):
        use(floor, process, 12 * GIB)
        floor.want(process, "GPU-1")
    assert floor.open_on("GPU-1") == ["a"]

    card_size.hear_nvml(floor.turns, floor.turns.gpu("GPU-1"), 2 * CARD, floor.now)
    floor.carry_out()
    assert sorted(floor.open_on("GPU-1")) == ["a", "b"]


# ---------------------------------------------------------------------------------------------- facts of containers
def test_later_facts_are_taken_but_for_the_gpus() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=2)
    process = join(floor, "a", 1)
    use(floor, process, 6 * GIB)
    facts = Container(key="a", gpus=("GPU-2",), weight=300, priority=7, memory=4 * GIB, allocation=AllocationKind.PLAIN)
    operator.set_facts(floor.turns, facts, floor.now)
    container, gpu = floor.turns.containers["a"], floor.turns.gpu("GPU-1")

    assert (container.facts.gpus, container.facts.weight, container.facts.priority) == (("GPU-1",), 300, 7)
    counted = 4 * GIB + floor.turns.rules.context_bytes
    assert (gpu.needed, gpu.pinned) == (counted, counted)


@pytest.mark.parametrize(
    ("before", "after", "gang"),
    [
        (Mode.PER_DEVICE, Mode.GANG, True),
        (Mode.GANG, Mode.PER_DEVICE, True),
        (Mode.PER_DEVICE, Mode.PER_DEVICE, False),
    ],
)
def test_a_container_becomes_a_gang_by_later_facts_and_stays_one(before: Mode, after: Mode, gang: bool) -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    process = join(floor, "a", 1, 2, mode=before)
    floor.want(process, "GPU-1")
    for turn in tuple(floor.seats[process].turns):
        floor.done(process, turn, "idle")
    operator.set_facts(floor.turns, Container(key="a", gpus=(), mode=after), floor.now)
    floor.want(process, "GPU-1")

    assert floor.turns.containers["a"].gang is gang
    assert floor.open_on("GPU-2") == (["a"] if gang else [])


def test_what_a_container_waited_for_one_by_one_it_waits_for_at_once_when_it_becomes_a_gang() -> None:
    floor = Floor(Rules(side_by_side=False), gpus=2)
    holders = [join(floor, f"h{number}", number) for number in (1, 2)]
    for number, process in enumerate(holders, 1):
        floor.want(process, f"GPU-{number}")
    first, second = (join(floor, "a", 1, 2, mode=Mode.PER_DEVICE) for _ in range(2))
    floor.want(first, "GPU-1")
    operator.set_facts(floor.turns, Container(key="a", gpus=(), mode=Mode.GANG), floor.now)
    floor.want(second, "GPU-2")
    (request,) = set(floor.turns.containers["a"].requests.values())

    assert (request.by, request.names) == ({first, second}, ("GPU-1", "GPU-2"))
    assert [len(floor.turns.gpu(uuid).queue) for uuid in ("GPU-1", "GPU-2")] == [1, 1]


def test_facts_of_a_container_that_is_not_here_are_no_trouble() -> None:
    floor = Floor(Rules(), gpus=1)
    operator.set_facts(floor.turns, Container(key="gone", gpus=("GPU-1",)), floor.now)

    assert floor.turns.containers == {}


# ---------------------------------------------------------------------------------------------- a welcome out of date
def test_a_container_whose_welcome_is_out_of_date_leaves_when_its_turns_are_over() -> None:
    floor = Floor(Rules(), gpus=1)
    process = join(floor, "a", 1)
    floor.want(process, "GPU-1")
    operator.make_reconnect(floor.turns, floor.turns.containers["a"], floor.now)
    floor.carry_out()
    assert floor.seats[process].asked

    floor.answer_yields()
    assert floor.seats == {}
    assert floor.turns.containers == {}


def test_a_container_at_rest_whose_welcome_is_out_of_date_leaves_at_once() -> None:
    floor = Floor(Rules(), gpus=1)
    join(floor, "a", 1)
    operator.make_reconnect(floor.turns, floor.turns.containers["a"], floor.now)
    floor.carry_out()

    assert floor.seats == {}


@pytest.mark.parametrize("holds", [False, True])
def test_a_new_process_brings_a_container_up_to_date_unless_it_holds_a_gpu(holds: bool) -> None:
    floor = Floor(Rules(), gpus=1)
    process = join(floor, "a", 1)
    if holds:
        floor.want(process, "GPU-1")
    floor.turns.containers["a"].must_reconnect = True
    join(floor, "a", 1)

    assert floor.turns.containers["a"].must_reconnect is holds


# ---------------------------------------------------------------------------------------------- the node
def test_the_pid_of_a_client_that_has_gone_is_forgotten() -> None:
    node = Node()
    node.pids[1], node.pids[2] = 11, 12
    node.forget(1)
    node.forget(9)

    assert node.pids == {2: 12}

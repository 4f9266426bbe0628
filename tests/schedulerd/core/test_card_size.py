"""The sizes of cards: NVML's word, else the one that all containers agree on."""

import pytest

from contract.words.grammar import AllocationKind
from schedulerd.core import card_size
from schedulerd.core.model import MIB, Container, Rules, usual_allocation
from tests.fakes.containers import Floor

GIB = 1024 * MIB


@pytest.fixture
def floor() -> Floor:
    return Floor(Rules(), capacity=None, gpus=2)


def say(floor: Floor, key: str, **sizes: int) -> int:
    """Let a process of a container in that says these sizes."""
    process = floor.join(Container(key=key, gpus=("GPU-1",)))
    card_size.hear_process(floor.turns, process, {f"GPU-{name[1:]}": size for name, size in sizes.items()}, floor.now)
    floor.carry_out()
    return process


def size(floor: Floor) -> int | None:
    return floor.turns.gpu("GPU-1").capacity


def test_without_nvml_a_processes_word_counts(floor: Floor) -> None:
    say(floor, "a", g1=16 * GIB)

    assert size(floor) == 16 * GIB


def test_two_that_fit_run_side_by_side_by_their_own_word(floor: Floor) -> None:
    for process in (say(floor, "a", g1=16 * GIB), say(floor, "b", g1=16 * GIB)):
        floor.want(process, "GPU-1")

    assert sorted(floor.open_on("GPU-1")) == ["a", "b"]


def test_containers_that_disagree_are_not_believed(floor: Floor) -> None:
    say(floor, "a", g1=16 * GIB)
    liar = say(floor, "b", g1=1)
    assert size(floor) is None

    floor.leave(liar)
    say(floor, "c", g1=16 * GIB)
    assert size(floor) == 16 * GIB, "decided anew by those that are there"


def test_nvmls_word_goes_first_and_stays_until_it_is_taken_back(floor: Floor) -> None:
    gpu = floor.turns.gpu("GPU-1")
    card_size.hear_nvml(floor.turns, gpu, 40 * GIB, floor.now)
    say(floor, "a", g1=16 * GIB)
    assert size(floor) == 40 * GIB

    card_size.hear_nvml(floor.turns, gpu, None, floor.now)
    assert size(floor) == 16 * GIB


def test_neither_a_zero_nor_a_gpu_of_others_is_a_word(floor: Floor) -> None:
    say(floor, "a", g1=0, g2=16 * GIB)

    assert size(floor) is None
    assert floor.turns.gpu("GPU-2").capacity is None


def test_a_process_that_knows_a_size_no_more_takes_back_nothing() -> None:
    floor = Floor(Rules(), capacity=None, gpus=1)
    process = say(floor, "a", g1=16 * GIB)
    card_size.hear_process(floor.turns, process, {"GPU-1": 0}, floor.now)

    assert (size(floor), floor.turns.containers["a"].card_bytes) == (16 * GIB, {"GPU-1": 16 * GIB})


def test_a_gpu_that_nobody_was_given_is_no_trouble(floor: Floor) -> None:
    say(floor, "a", g1=16 * GIB, g9=16 * GIB)

    assert floor.turns.containers["a"].card_bytes == {"GPU-1": 16 * GIB}


@pytest.mark.parametrize(("gpus", "kind"), [(1, AllocationKind.MANAGED), (2, AllocationKind.PLAIN)])
def test_memory_is_managed_on_one_gpu_and_plain_on_several(gpus: int, kind: AllocationKind) -> None:
    assert usual_allocation([f"GPU-{number}" for number in range(gpus)]) is kind

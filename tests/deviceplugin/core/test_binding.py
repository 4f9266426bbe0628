"""The states of a binding: what Allocate tells, and what a start writes and waits for."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from contract.allocation import Allocation
from deviceplugin.core.binding import MOST_NAMES, Start, Wait, recover, settle, start, tell

NEW = Allocation("k", ("GPU-a__0",), ("GPU-a",), 2.0)
TOLD = replace(NEW, names=("k-1",))
BOUND = replace(TOLD, binding=1)


def render(content: str = "same") -> Callable[[Allocation], str]:
    return lambda allocation: f'{" ".join(allocation.names)} "/x/bound-{allocation.binding}" {content}'


@pytest.mark.parametrize(
    ("before", "names"),
    [
        pytest.param(None, ("k-2",), id="the first container"),
        pytest.param(TOLD, ("k-1", "k-2"), id="another container of the pod, or a pod that never started"),
        pytest.param(BOUND, ("k-2",), id="the next pod: the one before has started"),
        pytest.param(replace(NEW, names=("k",), binding=1), ("k-2",), id="after an older plugin"),
    ],
)
def test_each_answer_tells_a_name_that_never_was(before: Allocation | None, names: tuple[str, ...]) -> None:
    assert tell(NEW, before, "2") == replace(NEW, names=names)


def test_names_of_pods_that_never_start_do_not_pile_up() -> None:
    allocation = NEW
    for number in range(3 * MOST_NAMES):
        allocation = tell(NEW, allocation, str(number))

    assert len(allocation.names) == MOST_NAMES
    assert allocation.names[-1] == f"k-{3 * MOST_NAMES - 1}"


@pytest.mark.parametrize(
    ("record", "on_disk", "after"),
    [
        pytest.param(TOLD, None, (1, Wait.SEEN), id="the first start"),
        pytest.param(TOLD, render()(replace(BOUND, names=("k-0",))), (1, Wait.SEEN), id="… over another pod's spec"),
        pytest.param(BOUND, render()(BOUND), (1, Wait.NOTHING), id="a restart on the same devices"),
        pytest.param(BOUND, None, (2, Wait.SEEN), id="a start after a reboot"),
        pytest.param(BOUND, render("other")(BOUND), (2, Wait.SETTLED), id="a restart after the devices have changed"),
        pytest.param(
            replace(BOUND, binding=2), render()(BOUND), (3, Wait.SETTLED), id="killed before it wrote the new spec"
        ),
        pytest.param(
            TOLD,
            render()(replace(BOUND, binding=4)),
            (5, Wait.SETTLED),
            id="the record was lost, the spec is there",
        ),
        pytest.param(BOUND, "k-1 by an older plugin", (2, Wait.SETTLED), id="an older plugin's spec"),
    ],
)
def test_what_a_start_does(record: Allocation, on_disk: str | None, after: tuple[int, Wait]) -> None:
    step = start(record, on_disk, render())

    assert (step.allocation.binding, step.wait) == after
    assert step.must_write is (step.wait is not Wait.NOTHING)
    assert step.spec == (render()(step.allocation) if step.must_write else "")


def test_a_start_that_was_written_is_not_written_again() -> None:
    first = start(TOLD, None, render())

    assert start(first.allocation, first.spec, render()) == Start(first.allocation, Wait.NOTHING)


def test_a_lost_record_is_made_from_what_the_kubelet_kept() -> None:
    assert recover(NEW, ["k-1", "k-2"], "uid") == replace(NEW, names=("k-1", "k-2"), pod="uid")
    assert recover(replace(TOLD, pod="uid"), ["k-1"], "") == replace(TOLD, pod="uid")
    assert settle(NEW).binding == 1

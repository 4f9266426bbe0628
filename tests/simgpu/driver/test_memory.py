"""Memory of a device: what fails when full, what pages and at what cost, who is paged out first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.gpu_machine import Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu import clients  # noqa: E402

# a card of 2,000 MB, paging at 1,000 MB a second, a pass over the memory every 100 ms: round figures to reason with
SMALL = {"page_rate": "1000MB", "pass": "100ms", "overhead": "100MB", "speed": "5"}
SMALL_CARD = "1xT4-2000MB"


def test_a_context_takes_memory_by_itself(machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(clients.free_megabytes) == 16384 - 300


@pytest.mark.parametrize(
    ("megabytes", "answer"),
    [
        pytest.param(16084, "SUCCESS", id="all that is free can be had"),
        pytest.param(16085, "OUT_OF_MEMORY", id="one more cannot"),
    ],
)
def test_plain_memory_fails_when_the_card_is_full(megabytes: int, answer: str, machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(clients.allocate, megabytes) == answer


def test_plain_memory_of_one_process_reduces_the_free_memory_of_the_other(machine: Machine) -> None:
    with machine.client() as one, machine.client() as other:
        assert one.call(clients.allocate, 10000) == "SUCCESS"
        assert other.call(clients.allocate, 6000) == "OUT_OF_MEMORY"
        assert other.call(clients.allocate, 5000) == "SUCCESS"


def test_managed_memory_may_exceed_the_card_and_then_pages_on_every_pass(make_machine: Callable[..., Machine]) -> None:
    with make_machine(SMALL_CARD, **SMALL).client() as client:
        client.call(clients.allocate_managed, 3000)
        times = client.call(clients.use_managed, "step_100ms", 4)

    assert times[-1] == pytest.approx(0.1 + 3.0, rel=0.05), "a pass over 3,000 MB at 1,000 MB a second"


def test_managed_memory_that_fits_pages_never(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    with machine.client() as client:
        client.call(clients.allocate_managed, 1500)
        times = client.call(clients.use_managed, "step_100ms", 3)

    assert times == pytest.approx([0.1, 0.1, 0.1], abs=0.06)
    assert sum(one.paged_bytes for one in machine.record().intervals(0)) == 0


def test_taking_turns_pages_once_a_turn_and_the_longest_idle_process_is_paged_out_first(
    make_machine: Callable[..., Machine],
) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    with machine.client("a") as a, machine.client("b") as b:
        a.call(clients.allocate_managed, 1200)
        b.call(clients.allocate_managed, 1200)
        a.call(clients.use_managed, "step_100ms", 2)
        b.call(clients.use_managed, "step_100ms", 2)
        turn = a.call(clients.use_managed, "step_100ms", 4)

    # 1,800 MB for 2,400: what b did not push out of a's is touched last and pushed out by a itself
    assert turn[0] == pytest.approx(0.1 + 1.2, rel=0.1)
    assert turn[2:] == pytest.approx([0.1, 0.1], abs=0.06)
    last = {one.owner.label: one for one in machine.record().residency(0) if one.managed_bytes}
    assert last["a"].resident_bytes == pytest.approx(1200 << 20, rel=0.1)
    assert last["b"].resident_bytes == pytest.approx(600 << 20, rel=0.2)


@pytest.mark.slow
def test_not_taking_turns_thrashes(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **{**SMALL, "speed": "1"})
    with machine.client("a") as a, machine.client("b") as b:
        for client in (a, b):
            client.call(clients.allocate_managed, 1200)
        for client in (a, b):
            client.start(clients.use_managed, "step_400ms", 1)
        together = a.result()[0] + b.result()[0]

    # alone: 0.4 s each. Together each of the four passes pages its 1,200 MB in, and waits for the other's paging;
    # less so where a busy machine starts the second late
    assert together > 2 * 0.4 * 4


@pytest.mark.parametrize("to_device", [True, False], ids=["prefetching costs what paging costs", "sending away frees"])
def test_prefetch(to_device: bool, make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    with machine.client() as client:
        pointer = client.call(clients.allocate_managed, 1000)
        client.call(clients.use_managed, "step_100ms", 1)
        client.call(clients.prefetch, pointer, 1000, False)
        assert client.call(clients.free_megabytes) == pytest.approx(1900, abs=2)
        if to_device:
            client.call(clients.prefetch, pointer, 1000, True)
        times = client.call(clients.use_managed, "step_100ms", 1)

    assert times[0] == pytest.approx(0.1 if to_device else 1.1, abs=0.06)
    record = machine.record()
    paging = [one for one in record.intervals(0) if one.seconds * record.speed > 0.9]
    assert len(paging) == 1, "the thousand megabytes came once: with the prefetch or with the kernel"


def test_plain_memory_does_not_page_but_pushes_managed_memory_out(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    with machine.client("managed") as managed, machine.client("plain") as plain:
        managed.call(clients.allocate_managed, 1500)
        managed.call(clients.use_managed, "step_100ms", 1)
        assert plain.call(clients.allocate, 1000) == "SUCCESS"
        assert plain.call(clients.free_megabytes) == 0
        times = managed.call(clients.use_managed, "step_100ms", 2)

    assert times[1] == pytest.approx(0.1 + 1.5, rel=0.05), "with 800 MB left, every pass of 1,500 MB pages whole"

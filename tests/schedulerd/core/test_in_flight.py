"""Time in flight: what processes tell in the ledger, how it is counted, and how it moves a deadline."""

import struct

import pytest

from contract.wire import shared_memory as layout
from schedulerd.core.in_flight import count_told
from schedulerd.core.messages import Done, Grant
from schedulerd.core.model import Container, Rules
from schedulerd.core.usage import Share
from schedulerd.policies import POLICIES
from schedulerd.server.shared_memory import SharedMemory
from tests.fakes.containers import Floor

RULES = Rules(policy=POLICIES["rr"], quantum=1.0, side_by_side=False)


def holding(floor: Floor, key: str) -> int:
    process = floor.join(Container(key=key, gpus=("GPU-1",)))
    floor.want(process, "GPU-1")
    return process


def turn_of(floor: Floor, process: int) -> str:
    return next(iter(floor.seats[process].turns))


def grant_of(floor: Floor, process: int) -> Grant:
    return next(iter(floor.seats[process].turns.values()))


# ---------------------------------------------------------------------------------------------- quiet
def test_a_grant_says_for_how_long_nobody_has_waited() -> None:
    floor = Floor(RULES, gpus=1)
    a = holding(floor, "a")
    assert grant_of(floor, a).quiet_ms == 10_000, "nobody ever has"

    b = holding(floor, "b")
    floor.pass_time(0.5)
    floor.done(a, turn_of(floor, a), "idle")
    assert grant_of(floor, b).quiet_ms == 0, "b itself has waited"

    floor.done(b, turn_of(floor, b), "idle")
    floor.pass_time(3)
    floor.want(a, "GPU-1")
    assert grant_of(floor, a).quiet_ms == 3000


def test_a_container_that_leaves_while_it_waits_has_waited() -> None:
    floor = Floor(RULES, gpus=1)
    a, b = holding(floor, "a"), holding(floor, "b")
    floor.pass_time(0.5)
    floor.leave(b)
    floor.pass_time(2)
    floor.done(a, turn_of(floor, a), "idle")

    floor.want(a, "GPU-1")

    assert grant_of(floor, a).quiet_ms == 2000


# ---------------------------------------------------------------------------------------------- counting
def test_processes_together_have_no_more_time_in_flight_than_has_passed() -> None:
    share = Share(looked_at=10.0)
    share.count_in_flight({1: (0.8, 0.0), 2: (0.7, 0.0)}, 11.0)
    assert share.busy == 1.0

    share.count_in_flight({1: (0.9, 0.0), 2: (0.8, 0.0)}, 12.0)
    assert share.busy == pytest.approx(1.2)


def test_the_time_of_a_process_that_tells_it_in_the_ledger_is_not_counted_again_when_its_turn_ends() -> None:
    floor = Floor(RULES, gpus=1)
    a = holding(floor, "a")
    share = floor.turns.containers["a"].shares["GPU-1"]
    floor.pass_time(2)
    count_told(floor.turns.containers["a"], "GPU-1", {a: (1.5, 0.0)}, floor.now)
    floor.turns.done(a, Done(turn_of(floor, a), busy_us=1_500_000), floor.now)

    assert share.busy == 1.5


def test_the_time_of_a_process_that_tells_nothing_is_counted_when_its_turn_ends() -> None:
    floor = Floor(RULES, gpus=1)
    a = holding(floor, "a")
    floor.pass_time(2)
    count_told(floor.turns.containers["a"], "GPU-1", {a: (0.0, 0.0)}, floor.now)
    floor.turns.done(a, Done(turn_of(floor, a), busy_us=1_500_000), floor.now)

    assert floor.turns.containers["a"].shares["GPU-1"].busy == 1.5


def test_the_daemon_reads_what_a_process_writes_into_its_slot() -> None:
    memory = SharedMemory("a", ("GPU-1", "GPU-2"))
    memory.own_slot(3, 77)
    at = layout.ledger_line(2, 3, 1)
    struct.pack_into("=Q", memory._ledger_map, at + layout.LEDGER_IN_FLIGHT, 2_500_000_000)
    struct.pack_into("=Q", memory._ledger_map, at + layout.LEDGER_LONGEST, 300_000_000)

    assert memory.in_flight(3) == {"GPU-1": (0.0, 0.0), "GPU-2": (2.5, 0.3)}


# ---------------------------------------------------------------------------------------------- the deadline
def overdue_after(longest: float) -> float:
    """Return how long a holder with such a launch has from its yield until it is shut out."""
    floor = Floor(RULES, gpus=1)
    a, _ = holding(floor, "a"), holding(floor, "b")
    floor.pass_time(0.5)
    count_told(floor.turns.containers["a"], "GPU-1", {a: (0.5, longest)}, floor.now)
    floor.pass_time(0.5)
    for tenths in range(200):
        if not floor.seats[a].turns:
            return tenths / 10
        floor.pass_time(0.1)
    raise AssertionError("never")


@pytest.mark.parametrize(("longest", "seconds"), [(0.0, 5.0), (0.2, 5.0), (6.0, 7.0), (60.0, 10.0)])
def test_a_holder_has_time_for_its_longest_launch_up_to_twice_the_grace(longest: float, seconds: float) -> None:
    assert overdue_after(longest) == pytest.approx(seconds, abs=0.2)

"""Time in flight: what processes tell in the ledger, how it is counted, and how it moves a deadline."""

import struct
from dataclasses import replace

import pytest

from contract.wire import shared_memory as layout
from contract.words.grammar import Mode
from schedulerd.core.in_flight import count_told, extend_deadline
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


def test_a_gang_is_as_quiet_as_the_gpu_for_which_somebody_waited_last() -> None:
    floor = Floor(RULES, gpus=2)
    floor.turns.gpu("GPU-1").waited_at, floor.turns.gpu("GPU-2").waited_at = 1.0, 3.0
    floor.now = 7.0
    gang = floor.join(Container(key="gang", gpus=("GPU-1", "GPU-2"), mode=Mode.GANG))
    floor.want(gang, "GPU-1")

    assert grant_of(floor, gang).quiet_ms == 4000


def test_more_quiet_than_ten_times_what_may_be_in_flight_is_not_told() -> None:
    floor = Floor(replace(RULES, alone_flight=0.5), gpus=1)

    assert grant_of(floor, holding(floor, "a")).quiet_ms == 5000


def test_a_daemon_that_comes_back_knows_of_no_quiet_before_it() -> None:
    floor = Floor(RULES, gpus=1)
    a = holding(floor, "a")
    floor.restart()
    floor.come_back(a)
    floor.done(a, turn_of(floor, a), "idle")
    floor.pass_time(3)
    floor.want(a, "GPU-1")

    assert grant_of(floor, a).quiet_ms == 3000


# ---------------------------------------------------------------------------------------------- counting
def test_what_was_in_flight_before_the_first_look_is_not_counted() -> None:
    share = Share()
    share.count_in_flight({1: (5.0, 0.2)}, 10.0)
    assert (share.busy, share.looked_at, share.longest) == (0.0, 10.0, 0.2)

    share.count_in_flight({1: (5.25, 0.2)}, 11.0)
    assert share.busy == 0.25


@pytest.mark.parametrize(
    ("told", "busy"),
    [
        pytest.param({1: 0.5}, 0.0, id="nothing more"),
        pytest.param({1: 0.5, 2: 0.25}, 0.25, id="all of a process that is new"),
        pytest.param({1: 0.125, 2: 0.25}, 0.25, id="nothing is taken back for a process that tells less"),
        pytest.param({}, 0.0, id="nobody tells"),
    ],
)
def test_only_what_processes_tell_more_than_before_is_counted(told: dict[int, float], busy: float) -> None:
    share = Share(looked_at=0.0, in_flight={1: 0.5})
    share.count_in_flight({process: (time, 0.0) for process, time in told.items()}, 10.0)

    assert share.busy == busy


def test_the_longest_launch_is_that_of_the_processes_that_are_there() -> None:
    share = Share()
    found = []
    for told in ({1: (1.0, 0.3), 2: (1.0, 0.7)}, {1: (1.0, 0.3)}, {}):
        share.count_in_flight(told, 1.0)
        found.append(share.longest)

    assert found == [0.7, 0.3, 0.0]


def test_what_a_process_told_goes_with_it() -> None:
    share = Share(looked_at=0.0, in_flight={1: 0.5, 2: 0.25})
    share.forget(1)
    share.forget(3)

    assert share.in_flight == {2: 0.25}
    assert (share.pageable, share.unpageable) == (0, 0)


def test_an_answer_that_tells_no_time_counts_none() -> None:
    floor = Floor(RULES, gpus=1)
    a = holding(floor, "a")
    floor.pass_time(1)
    floor.done(a, turn_of(floor, a))

    assert floor.turns.containers["a"].shares["GPU-1"].busy == 0.0


@pytest.mark.parametrize(("holds", "busy"), [(True, 1.5), (False, 0.0)])
def test_a_container_that_is_looked_at_first_is_counted_since_its_turn_began(holds: bool, busy: float) -> None:
    floor = Floor(RULES, gpus=1)
    floor.now = 4.0
    process = floor.join(Container(key="a", gpus=("GPU-1",)))
    if holds:
        floor.want(process, "GPU-1")
    floor.pass_time(1.5)
    count_told(floor.turns.containers["a"], "GPU-1", {process: (9.0, 0.0)}, floor.now)

    assert floor.turns.containers["a"].shares["GPU-1"].busy == busy


def test_what_is_told_with_the_end_of_a_turn_counts_up_to_its_own_length() -> None:
    floor = Floor(RULES, gpus=1)
    floor.now = 4.0
    a = holding(floor, "a")
    floor.pass_time(0.5)
    floor.turns.done(a, Done(turn_of(floor, a), busy_us=3_000_000), floor.now)

    assert floor.turns.containers["a"].shares["GPU-1"].busy == 0.5


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


@pytest.mark.parametrize(
    ("longest", "reason", "seconds", "is_extended"),
    [
        pytest.param((0.0, 0.0), "overdue", 0.0, False, id="no launch is known"),
        pytest.param((0.2, 0.0), "overdue", 0.0, True, id="the grace was long enough"),
        pytest.param((0.0, 6.0), "overdue", 2.0, True, id="the longest of all its GPUs counts"),
        pytest.param((60.0, 6.0), "overdue", 5.0, True, id="twice the grace at most"),
        pytest.param((60.0, 60.0), "paused", 0.0, False, id="a pause is not put off"),
    ],
)
def test_a_deadline_is_moved_once_and_only_for_a_launch_that_outlasts_the_grace(
    longest: tuple[float, float], reason: str, seconds: float, is_extended: bool
) -> None:
    floor = Floor(RULES, gpus=2)
    gang = floor.join(Container(key="gang", gpus=("GPU-1", "GPU-2"), mode=Mode.GANG))
    floor.want(gang, "GPU-1")
    (turn,) = floor.turns.grants.turns.values()
    floor.turns.grants.ask(turn, 1.0, reason=reason)
    for share, one in zip(floor.turns.containers["gang"].shares.values(), longest, strict=True):
        share.longest = one

    assert extend_deadline(RULES, turn, 6.0) is bool(seconds)
    assert (turn.deadline, turn.extended) == (6.0 + seconds, is_extended)
    assert not extend_deadline(RULES, turn, 6.0 + seconds)
    assert turn.deadline == 6.0 + seconds

"""Shares of GPU time and lengths of waits, in simulated minutes."""

from typing import Any

import pytest

from schedulerd.core import operator
from schedulerd.core.history import Histories
from schedulerd.core.messages import Done, Using
from schedulerd.core.model import Rules
from schedulerd.observer.fairness import jain
from schedulerd.policies import POLICIES
from tests.fakes.containers import Floor
from tests.fakes.simulation import Simulation, worker
from tests.schedulerd.policies.crowds import crowded, longest_wait_bound

MINUTE = 60.0


def shares(simulation: Simulation, *keys: str, gpu: str = "GPU-1") -> Any:
    return [simulation.held_seconds(key, gpu) for key in keys]


def test_equal_clients_with_unequal_kernels_get_equal_time() -> None:
    """Let a kernel of 200 ms overrun a turn of 100 ms: the excess is given back."""
    workers = [worker(f"c{i}", 1, kernel=kernel) for i, kernel in enumerate((0.0001, 0.001, 0.02, 0.2))]
    simulation = Simulation(Rules(), workers, gpus=1)
    simulation.run(5 * MINUTE)

    assert jain(shares(simulation, "c0", "c1", "c2", "c3")) >= 0.99


def test_weights_one_two_four_are_honoured_within_five_percent() -> None:
    workers = [worker("a", 1, weight=100), worker("b", 1, weight=200), worker("c", 1, weight=400)]
    simulation = Simulation(Rules(), workers, gpus=1)
    simulation.run(5 * MINUTE)
    a, b, c = shares(simulation, "a", "b", "c")

    assert b / a == pytest.approx(2, rel=0.05)
    assert c / a == pytest.approx(4, rel=0.05)


def test_one_weight_a_gang_shares_both_its_gpus_with_singles_by_weight() -> None:
    workers = [worker("g", 1, 2, weight=100), worker("s", 1, weight=100), worker("t", 2, weight=100)]
    simulation = Simulation(Rules(), workers, gpus=2)
    simulation.run(5 * MINUTE)

    for gpu, single in (("GPU-1", "s"), ("GPU-2", "t")):
        gang, alone = simulation.held_seconds("g", gpu), simulation.held_seconds(single, gpu)
        assert gang / (gang + alone) == pytest.approx(0.5, abs=0.05)


def test_who_was_away_gets_no_time_for_it() -> None:
    """Let a container rest: it saves up no turns, and the others are not shut out when it returns."""
    workers = [worker("stays", 1), worker("returns", 1, burst=1.0, rest=100.0)]
    simulation = Simulation(Rules(), workers, gpus=1)
    simulation.run(5 * MINUTE)

    assert max(workers[0].waits) < 1.0


def test_a_client_that_thinks_four_seconds_does_not_block_its_neighbour() -> None:
    """Let a client think for four seconds (nvshare: the neighbour waited 63.8 of 120 s)."""
    workers = [worker("hog", 1), worker("thinker", 1, burst=0.002, rest=4.0)]
    simulation = Simulation(Rules(), workers, gpus=1)
    simulation.run(120)

    assert sum(workers[0].waits) < 2.0
    assert max(workers[1].waits) < 0.2


def test_a_sole_client_is_never_asked_to_yield() -> None:
    """Count how often it is asked (nvshare: 10 times in 10 s)."""
    simulation = Simulation(Rules(), [worker("alone", 1)], gpus=1)
    simulation.run(10 * MINUTE)

    assert not any("Yield" in order for order in simulation.history)


def test_a_deaf_holder_is_shut_out_after_the_grace_and_the_others_go_on() -> None:
    workers = [worker("deaf", 1, deaf=True), worker("b", 1), worker("c", 1)]
    rules = Rules(grace=0.5)
    simulation = Simulation(rules, workers, gpus=1)
    simulation.run(MINUTE)

    assert max(workers[1].waits) < 2 * (rules.quantum + rules.grace) + 0.1
    assert any(notice.kind == "overdue" for notice in simulation.notices)


def test_higher_priority_goes_first_and_at_once() -> None:
    workers = [worker("low", 1), worker("high", 1, priority=10, burst=0.5, rest=1.0)]
    simulation = Simulation(Rules(policy=POLICIES["priority"]), workers, gpus=1)
    simulation.run(MINUTE)

    assert max(workers[1].waits) < 0.02


def test_sjf_serves_short_bursts_before_long_ones() -> None:
    workers = [
        worker("long1", 1, burst=5.0, rest=0.1),
        worker("long2", 1, burst=5.0, rest=0.1),
        worker("long3", 1, burst=5.0, rest=0.1),
        worker("short", 1, burst=0.02, rest=0.3),
    ]
    simulation = Simulation(Rules(policy=POLICIES["sjf"]), workers, gpus=1)
    simulation.run(5 * MINUTE)
    late = workers[3].waits[len(workers[3].waits) // 2 :]

    assert sum(late) / len(late) < 0.15


def test_fcfs_lets_the_first_finish() -> None:
    workers = [worker("first", 1, burst=3.0, rest=1.0), worker("second", 1, burst=0.1, rest=1.0)]
    simulation = Simulation(Rules(policy=POLICIES["fcfs"]), workers, gpus=1)
    simulation.run(MINUTE)

    assert not any("Yield" in order for order in simulation.history)


@pytest.mark.parametrize("policy", ["fair", "rr", "sjf"])
@pytest.mark.parametrize("gpus", [3, 8, 16])
def test_three_overlapping_gangs_with_everybody_else_never_stall(policy: str, gpus: int) -> None:
    """Run gangs, per-device and single containers on overlapping GPUs: none waits longer than the docs say."""
    simulation, workers = crowded(policy, gpus, seed=gpus)
    simulation.run(20 if gpus > 3 else MINUTE)

    assert all(one.waits for one in workers)
    assert max(max(one.waits) for one in workers) <= longest_wait_bound(simulation.turns.rules, workers)


def test_a_on_gpu_1_and_b_on_gpus_1_and_2_never_overlap_on_gpu_1() -> None:
    """Check that both had their turns; the floor checks each single order."""
    workers = [worker("A", 1), worker("B", 1, 2)]
    simulation = Simulation(Rules(), workers, gpus=2)
    simulation.run(MINUTE)

    assert len(workers[0].waits) > 100
    assert len(workers[1].waits) > 100


def test_the_same_events_give_the_same_orders() -> None:
    runs = []
    for _ in range(2):
        simulation, _ = crowded("fair", 3, seed=7)
        simulation.run(10)
        runs.append(simulation.history)

    assert runs[0] == runs[1]
    assert len(runs[0]) > 1000


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends after each turn and starts anew"])
def test_a_program_has_its_weights_share_whether_it_ends_or_not(ends: bool) -> None:
    floor = Floor(Rules())
    facts = {key: worker(key, 1, weight=weight).container for key, weight in (("heavy", 1000), ("light", 10))}
    processes = {key: floor.join(one) for key, one in facts.items()}
    held = dict.fromkeys(facts, 0.0)
    for process in processes.values():
        floor.want(process, "GPU-1")
    while floor.now < 2 * MINUTE:
        floor.pass_time(0.01)
        for turn in floor.turns.gpu("GPU-1").holders:
            held[turn.container.facts.key] += 0.01
        for key, process in tuple(processes.items()):
            for name in tuple(floor.seats[process].asked):
                floor.done(process, name)
                if ends and key == "light":
                    floor.leave(process)
                    processes[key] = floor.join(facts[key])
                floor.want(processes[key], "GPU-1")

    assert held["heavy"] / held["light"] == pytest.approx(100, rel=0.2)


def test_what_a_container_had_is_counted_on_when_it_comes_again() -> None:
    floor = Floor(Rules())
    a = floor.join(worker("a", 1).container)
    floor.want(a, "GPU-1")
    floor.pass_time(3.0)
    floor.leave(a)
    floor.pass_time(60.0)
    floor.join(worker("a", 1).container)
    share = floor.turns.containers["a"].shares["GPU-1"]

    assert share.turns == 1
    assert share.held == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        pytest.param(0.5, 0.25, id="in equal parts on the turn's GPUs"),
        pytest.param(1000.0, 1.0, id="never longer than the turn"),
    ],
)
def test_busy_time_is_what_the_process_says_within_its_turn(said: Any, counted: int) -> None:
    floor = Floor(Rules())
    a = floor.join(worker("a", 1, 2).container)
    floor.want(a, "GPU-1", "GPU-2")
    floor.pass_time(1.0)
    (turn,) = floor.seats[a].turns
    floor.turns.done(a, Done(turn, busy_us=round(said * 1e6)), floor.now)
    shares = floor.turns.containers["a"].shares

    assert [shares[gpu].busy for gpu in ("GPU-1", "GPU-2")] == pytest.approx([counted, counted])


def test_of_those_that_left_only_so_many_are_remembered_and_only_so_long() -> None:
    histories = Histories()
    for number in range(5000):
        histories.keep(f"c{number}", {}, 0.0, gang=False)
    assert len(histories) == 1024
    assert histories.take("c3000") is None
    assert histories.take("c4999") is not None

    histories.keep("last", {}, 3600.0, gang=False)
    assert len(histories) == 1


def test_a_folder_that_goes_takes_its_containers_histories_with_it() -> None:
    histories = Histories()
    for key in ("k.1.1000", "k.1.2000", "k.10.1000", "k.1000"):
        histories.keep(key, {}, 0.0, gang=False)
    histories.forget_all_of("k.1")

    assert [histories.take(key) is None for key in ("k.1.1000", "k.1.2000", "k.10.1000", "k.1000")] == [
        True,
        True,
        False,
        False,
    ]


GIB = 1 << 30
TEN_HOURS = 36_000.0


def wait_for(floor: Floor, wanted: Any, *, step: float = 1.0) -> Any:
    """Return how long until this container holds the GPU, while all answer and want again at once.

    The figure is late by a step at most."""
    began = floor.now
    while floor.open_on("GPU-1") != [wanted]:
        assert floor.now - began < TEN_HOURS, f"{wanted} waits for ever"
        floor.pass_time(step)
        for process, turn in [(p, turn) for p, seat in floor.seats.items() for turn in seat.asked]:
            floor.done(process, turn)
            floor.want(process, "GPU-1")
    return floor.now - began


def outgrown_after_ten_hours_side_by_side() -> Any:
    """Let no container wait, though the light one has had the most for its weight."""
    floor = Floor(Rules(), capacity=16 * GIB, gpus=1)
    sizes = {floor.join(worker(key, 1, weight=w).container): key for key, w in (("x", 200), ("y", 200), ("light", 100))}
    for process in sizes:
        floor.want(process, "GPU-1")
    floor.pass_time(TEN_HOURS)
    for process in sizes:
        floor.turns.using(process, Using("GPU-1", 12 * GIB, 0), floor.now)
        floor.carry_out()
    for process in sizes:
        for turn in tuple(floor.seats[process].turns):
            floor.done(process, turn)
            floor.want(process, "GPU-1")
    return floor


def changed_to_fair(policy: str, *, holders: Any, quantum: float | None = None, seconds: float) -> Any:
    """Let some hold in turn while one waits, as the policy lets them; then the operator changes the policy."""
    floor = Floor(Rules(policy=POLICIES[policy], fixed_quantum=quantum), gpus=1)
    for number in range(holders):
        floor.want(floor.join(worker(f"had{number}", 1, priority=10).container), "GPU-1")
    floor.pass_time(1.0)
    floor.want(floor.join(worker("waited", 1).container), "GPU-1")
    until = floor.now + seconds
    while floor.now < until:
        floor.pass_time(10.0)
        for process, turn in [(p, turn) for p, seat in floor.seats.items() for turn in seat.asked]:
            floor.want(process, "GPU-1")
            floor.done(process, turn)
    assert floor.turns.containers["waited"].shares["GPU-1"].turns == 0
    operator.set_policy(floor.turns, POLICIES["fair"], floor.now)
    floor.carry_out()
    wait_for(floor, "waited")
    return floor


LONGEST_TURN = Rules().longest_quantum + Rules().grace


@pytest.mark.parametrize(
    ("begin", "next_one", "bound"),
    [
        pytest.param(
            outgrown_after_ten_hours_side_by_side,
            "light",
            (4 + 2) * LONGEST_TURN,
            id="side by side until they outgrew the card: two of twice its weight are first, each to the end of a turn",
        ),
        pytest.param(
            lambda: changed_to_fair("fcfs", holders=1, seconds=TEN_HOURS),
            "had0",
            LONGEST_TURN,
            id="one held as long as it liked: the other has had as much as its longest turn",
        ),
        pytest.param(
            lambda: changed_to_fair("priority", holders=2, quantum=600.0, seconds=4200.0),
            "had0",
            605.0,
            id="two of higher priority took turns: the third has had as much as one of them",
        ),
    ],
)
def test_under_fair_nobody_waits_longer_than_after_one_longest_turn_whatever_was_before(
    begin: Any, next_one: Any, bound: float
) -> None:
    assert wait_for(begin(), next_one) <= bound + 5.0

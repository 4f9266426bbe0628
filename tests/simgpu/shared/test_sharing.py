"""Processes that share devices: slices, queues, collectives, death, containers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.gpu_record import Interval, Turn, busy_seconds, busy_share, interleavings, outside_turns, overlaps
from tests.fakes.gpu_machine import BUILD, Machine, in_own_process_namespace
from tests.simgpu.kills import check_record, kills, kills_while_sharing

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu import clients  # noqa: E402

pytestmark = pytest.mark.slow


def test_two_processes_slow_each_other_as_the_slices_say(machine: Machine) -> None:
    # The best of up to three pairs counts: a process that waits for its processor leaves the GPU idle.
    for number in range(3):
        labels = (f"a{number}", f"b{number}")
        both, share = _side_by_side(machine, labels)
        busy = [busy_seconds(both)[label] for label in labels]
        assert abs(busy[0] - busy[1]) < 0.2 * sum(busy)
        assert overlaps(both) == []
        runs = sorted(last - first for _, first, last in interleavings(both))
        assert runs[len(runs) // 2] == pytest.approx(0.002, rel=0.05), "a slice is 2 ms"
        if share > 0.8:
            return
    pytest.fail(f"the GPU was busy for {share:.0%} of the time in which both had work")


def _side_by_side(machine: Machine, labels: tuple[str, str]) -> tuple[list[Interval], float]:
    """Return what two programs executed while both ran, and for how much of that time."""
    programs = [machine.start_burn("--kernel-ms", "20", "--seconds", "0.8", label=label) for label in labels]
    for program in programs:
        assert program.wait() == 0
    intervals = [one for one in machine.record().intervals(0) if one.owner.label in labels]
    starts = [next(one.start for one in intervals if one.owner.label == label) for label in labels]
    start, end = max(starts) + 0.05, min(starts) + 0.75
    both = [one for one in intervals if one.start >= start and one.end <= end]
    return both, busy_share(both, start, end)


def test_a_short_kernel_does_not_wait_for_a_long_kernel_of_another_process(machine: Machine) -> None:
    with machine.client("long") as long, machine.client("short") as short:
        long.call(clients.begin_and_forget)
        short.call(clients.run_kernels, "warm_1ms", 1)
        long.start(clients.run_kernels, "long_1s", 1)
        time.sleep(0.1)  # the long kernel is what must be running; nothing tells when it is

        assert short.call(clients.run_kernels, "short_5ms", 1) < 0.1
        assert long.result() > 1.0


def test_a_collective_ends_only_when_its_partner_on_another_device_has_begun(
    make_machine: Callable[..., Machine],
) -> None:
    machine = make_machine("2xT4-16GB")
    with machine.client("first") as first, machine.client("second") as second:
        first.call(clients.begin_and_forget)
        second.call(clients.begin_on, 1)
        first.start(clients.run_kernels, "allreduce_5ms_x2", 1)
        time.sleep(0.3)  # how late the partner comes is the test's own choice
        second.call(clients.run_here, "allreduce_5ms_x2", 1)

        assert 0.28 <= first.result() < 0.6


def test_a_partner_that_died_has_not_come(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine("2xT4-16GB")
    with machine.client() as waiting, machine.client() as dying, machine.client() as coming:
        dying.start(clients.run_kernels, "allreduce_5ms_x3", 1)
        waiting.start(clients.run_kernels, "allreduce_5ms_x3", 1)
        coming.call(clients.begin_on, 1)
        time.sleep(0.5)  # both have begun by then
        dying.kill()
        time.sleep(0.5)  # and whoever waits has noticed: it looks every few milliseconds
        coming.start(clients.run_here, "allreduce_5ms_x3", 1)
        with pytest.raises(AssertionError):
            waiting.result(timeout=0.5)
        waiting.kill()
        coming.kill()


def test_a_killed_process_s_queue_and_memory_disappear(machine: Machine) -> None:
    with machine.client("left") as left, machine.client("killed") as killed:
        before = left.call(clients.free_megabytes)
        assert killed.call(clients.allocate, 4000) == "SUCCESS"
        assert left.call(clients.free_megabytes) == before - 4000 - 300
        killed.start(clients.run_kernels, "long_1s", 60)
        time.sleep(0.1)  # so that some of it is in the queue
        killed.kill()

        assert left.call(clients.run_kernels, "short_50ms", 1) < 0.2
        assert left.call(clients.free_megabytes) == before


def _alive(machine: Machine) -> int:
    return sum(owner.died is None for owner in machine.record().owners())


def test_two_containers_whose_programs_are_both_process_1_are_told_apart(machine: Machine) -> None:
    burn = [*in_own_process_namespace(), str(BUILD / "burn"), "--kernel-ms", "5", "--seconds", "30"]
    programs = [subprocess.Popen(burn, env=machine.environment(), stdout=subprocess.DEVNULL) for _ in range(2)]
    try:
        deadline = time.monotonic() + 10
        while machine.tool("status").stdout.count("(pid 1)") < 2:
            assert time.monotonic() < deadline, machine.tool("status").stdout
        programs[0].kill()
        programs[0].wait()
        while machine.tool("status").stdout.count("(pid 1)") > 1 or _alive(machine) > 1:
            assert time.monotonic() < deadline, "the dead one of two processes with the same id is still there"
        assert _alive(machine) == 1
    finally:
        for program in programs:
            program.kill()
            program.wait()


def test_sixty_kills_at_random_instructions_leave_the_file_whole(tmp_path: Path) -> None:
    kills(Machine(tmp_path, "2xT4-16GB", {"record_entries": "1000000"}), 60, seed=7)


def test_kernels_in_flight_are_bounded_as_a_driver_s_queue_is(machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(clients.seconds_to_submit, "step_1ms", 1000) < 0.5
        assert client.call(clients.seconds_to_submit, "step_1ms", 1500) > 0.3, "the call blocks when the queue is full"


def test_a_call_can_be_stretched_for_race_drills(machine: Machine) -> None:
    with machine.client(stretch_before="4ms", stretch_after="4ms") as client:
        assert client.call(clients.seconds_to_submit, "nothing", 30) > 0.05


def test_speed_shortens_everything(make_machine: Callable[..., Machine]) -> None:
    with make_machine(speed="20").client() as client:
        assert 0.1 <= client.call(clients.run_kernels, "long_2s", 1) < 0.2


def test_the_record_names_the_process_and_counts_lost_entries(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(record_entries="16")
    machine.burn("--kernel-ms", "1", "--count", "60", label="alice")
    record = machine.record()
    [owner] = [owner for owner in record.owners() if owner.device == 0]

    assert owner.label == "alice"
    assert owner.died is not None
    assert record.lost() > 0
    assert len(record.intervals(0)) == 16
    assert record.cards[0].uuid.startswith("GPU-")


def test_execution_outside_a_turn_is_found(machine: Machine) -> None:
    machine.burn("--kernel-ms", "5", "--count", "10", label="alice")
    intervals = machine.record().intervals(0)
    whole = Turn("alice", intervals[0].start, intervals[-1].end)
    half = Turn("alice", intervals[0].start, intervals[5].start)

    assert outside_turns(intervals, [whole]) == []
    assert sum(seconds for _, seconds in outside_turns(intervals, [half])) == pytest.approx(0.025, abs=1e-6)
    assert check_record(machine) == len(intervals)


def test_a_process_that_exits_within_a_transaction_ends(machine: Machine, tmp_path: Path) -> None:
    program = tmp_path / "sudden"
    source = Path(__file__).parents[1] / "programs" / "sudden.c"
    subprocess.run(["gcc", source, "-o", program, f"-L{BUILD}", "-lcuda"], check=True)
    for microseconds in range(1000, 3000, 200):
        ended = subprocess.run([program, str(microseconds)], env=machine.environment(), timeout=5)
        assert ended.returncode == 7


def test_kernels_that_wait_for_each_other_are_as_many_on_every_device_when_the_time_is_over(
    make_machine: Callable[..., Machine],
) -> None:
    machine = make_machine("8xT4-16GB")
    for _ in range(10):  # a thread that saw the end a moment before the others left them waiting for its kernel
        said = machine.burn("--devices", "0,1,2,3,4,5,6,7", "--together", "8", "--seconds", "0.02")

        launched = {word for word in said.split() if word.startswith("launched=")}
        assert len(launched) == 1, said


def test_the_death_of_an_owner_of_shared_memory_is_told_to_its_guest(machine: Machine) -> None:
    # `make drills ROOM=simgpu` does it 500 times
    assert "nothing left" in kills_while_sharing(machine, 25)

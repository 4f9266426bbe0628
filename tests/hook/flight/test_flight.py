"""Work in flight: however much of it there is, a launch is held back for a while and never for good."""

import statistics
import time
from collections.abc import Iterator

import pytest

from schedulerd.control.client import ControlClient
from testbed.gpu_record import Record
from tests.fakes.wire.client import running_daemon
from tests.fakes.wire.daemon import Peer
from tests.hook.support.flying import FOUR_STREAMS, drain_of, seconds_of
from tests.hook.support.machine import Machine, compiled, hook_built


@pytest.fixture
def peer(machine: Machine) -> Peer:
    machine.devices = "2xT4-16GB"
    return Peer(machine.sockets, machine.uuids())


@pytest.fixture
def peer_of_one(machine: Machine) -> Iterator[Peer]:
    one = Peer(machine.sockets, machine.uuids())
    yield one
    one.stop()


@pytest.mark.parametrize(
    ("launches", "streams"),
    [
        pytest.param(75, 1, id="more than there are events, in one stream"),
        pytest.param(75, 75, id="more than there are events, in a stream each"),
        pytest.param(600, 1, id="more than the driver would take with an event behind each"),
    ],
)
def test_any_number_of_launches_goes_behind_a_kernel_that_waits_for_its_partner(
    machine: Machine, peer: Peer, launches: int, streams: int
) -> None:
    program = machine.start(compiled("stuck"), str(launches), str(streams))
    connection = peer.accept()
    peer.welcome(connection, flight_ms=2)
    for gpu in range(2):
        connection.hear("want", gpus=peer.gpus[gpu])
        peer.grant(connection, gpu)
    try:
        out, said = program.communicate(timeout=15)
    finally:
        program.kill()
        peer.stop()

    assert program.returncode == 0, said
    assert out == "ended\n"


# ---------------------------------------------------------------------------------------------- one bound a stream


def test_a_stream_of_short_kernels_is_not_held_back_by_a_stream_of_long_ones(machine: Machine) -> None:
    took = seconds_of(machine, "25+1", waiting=1, keep_ms=1000)
    assert took < 1.4, "1 s without the hook; 2 s if streams were summed"


def test_a_program_that_has_long_been_alone_may_queue_far_ahead(machine: Machine) -> None:
    took = seconds_of(machine, "ahead", waiting=0, quiet_ms=10_000)
    assert took < 1.4, "1 s without the hook; 1.7 s if 20 ms were all"


@pytest.mark.parametrize(
    ("words", "shortest", "longest"),
    [
        pytest.param({"waiting": 1, "keep_ms": 1000}, 0.0, 0.15, id="somebody waits"),
        pytest.param({"waiting": 0, "quiet_ms": 0}, 0.0, 0.15, id="somebody waited just now"),
        pytest.param({"waiting": 0, "quiet_ms": 4_000}, 0.2, 0.8, id="nobody has waited for 4 s: a tenth of it"),
        pytest.param({"waiting": 0, "quiet_ms": 10_000}, 0.6, 2.0, id="nobody has waited for long: a second"),
    ],
)
def test_the_time_for_which_nobody_waited_decides_how_much_a_yield_must_wait_for(
    machine: Machine, words: dict[str, int], shortest: float, longest: float
) -> None:
    took = drain_of(machine, **words)

    assert shortest <= took <= longest


# ---------------------------------------------------------------------------------------------- nothing is lost
def test_work_behind_which_no_event_can_be_recorded_is_waited_for_all_the_same(machine: Machine) -> None:
    machine.hook = hook_built("without_events", EXTRA="-DNVSHARE_EVENTS_FAIL")
    peer = Peer(machine.sockets, machine.uuids())
    program = machine.start(compiled("pulse"), "3000", "1", "step_400ms")
    try:
        connection = peer.accept()
        peer.welcome(connection)
        connection.hear("want")
        turn = peer.grant(connection)
        assert program.stdout
        program.stdout.readline()
        began = time.monotonic()
        connection.say("yield", turn=turn, grace_ms=5000)
        connection.hear("done", turn=turn)
        took = time.monotonic() - began
    finally:
        program.kill()
        program.communicate()
        peer.stop()

    assert took > 0.3, "`done` was said while the kernel ran"


# ---------------------------------------------------------------------------------------------- time in flight
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("lone", "10+10"), id="two streams at once"),
        pytest.param(("lone", "shapes"), id="a new shape each launch"),
        pytest.param(("bursts", "step_5ms", "20", "30"), id="a kernel now and then"),
    ],
)
def test_time_in_flight_is_what_the_gpu_recorded(machine: Machine, program: tuple[str, ...]) -> None:
    machine.settings |= FOUR_STREAMS
    with running_daemon(machine.sockets):
        ended = machine.run(compiled(program[0]), *program[1:], NVSHARE_LOG="summary")

    ended.well()
    recorded = sum(one.seconds for one in Record(machine.gpus).intervals(0))
    assert float(ended.said.split("gpu_seconds=")[1].split()[0]) == pytest.approx(recorded, rel=0.1)


def test_the_daemon_counts_the_time_that_a_process_tells_in_its_ledger(machine: Machine) -> None:
    with running_daemon(machine.sockets, "--side-by-side=never"):
        program = machine.start(compiled("bursts"), "step_5ms", "20", "600")
        busy = []
        for _ in range(2):
            time.sleep(2)
            with ControlClient(machine.sockets / "control.sock") as asking:
                (place,) = asking.read_status().places
            busy.append(place.busy_us / 1e6)
        program.kill()
        program.communicate()

    assert 0.1 < busy[1] - busy[0] < 0.8, "5 ms every 25 ms, in a turn that goes on"


# ---------------------------------------------------------------------------------------------- measuring programs
def test_what_a_program_launches_between_two_timing_events_is_not_held_back(
    machine: Machine, peer_of_one: Peer
) -> None:
    program = machine.start(compiled("timing"), "step_2ms", "5")
    connection = peer_of_one.accept()
    peer_of_one.welcome(connection)
    connection.hear("want")
    peer_of_one.grant(connection, waiting=1, keep_ms=1000)  # 20 ms are all that may be in flight
    out, said = program.communicate(timeout=30)

    assert program.returncode == 0, said
    times = [tuple(map(float, line.split())) for line in out.splitlines()]
    # The kernels last 1 ms each.  A function that nobody knows would start alone: the first row would show pauses.
    assert min(between for between, _ in times) < 9
    assert statistics.median(call for _, call in times) < 3


def test_a_green_contexts_stream_is_waited_for_on_its_own_gpu(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("green"), "step_400ms")
    try:
        connection = peer.accept()
        peer.welcome(connection)
        connection.hear("want", gpus=peer.gpus[1])
        turn = peer.grant(connection, 1)
        assert program.stdout
        assert program.stdout.readline() == "launched\n"
        began = time.monotonic()
        connection.say("yield", turn=turn, grace_ms=5000)
        connection.hear("done", turn=turn)
        took = time.monotonic() - began
    finally:
        program.kill()
        _, said = program.communicate()
        peer.stop()

    assert took > 0.3, said

"""Memory: every byte is counted, in all processes and for every kind of allocation, and programs are told the cap."""

import sys
import time

import pytest

from tests.fakes.wire.daemon import Peer
from tests.hook.support.killing import kill_in_mid_allocation
from tests.hook.support.machine import Machine, compiled
from tests.hook.support.serving import GIB, MIB, serving

WAYS = ["plain", "managed", "pitch", "in-stream", "from-pool", "physical", "array", "array-3d", "mipmaps", "graph-node"]


def _rows(machine: Machine, mib: int) -> dict[str, tuple[int, int, int]]:
    rows = (line.split() for line in machine.run(compiled("families"), str(mib)).well().splitlines())
    return {way: (int(result), int(free), int(total)) for way, result, free, total in rows}


@pytest.mark.parametrize("allocation", ["managed", "plain"])
def test_below_the_cap_every_kind_of_allocation_succeeds_and_returns_all_bytes(
    machine: Machine, peer: Peer, allocation: str
) -> None:
    with serving(peer, memory=256 * MIB, allocation=allocation):
        rows = _rows(machine, 64)

    assert rows == dict.fromkeys(WAYS, (0, 256 * MIB, 256 * MIB))
    assert peer.ledger.total() == 0
    assert peer.ledger.fields(0)[2] >= 64 * MIB


def test_beyond_the_cap_every_way_is_out_of_memory(machine: Machine, peer: Peer) -> None:
    with serving(peer, memory=256 * MIB):
        rows = _rows(machine, 320)

    assert rows == dict.fromkeys(WAYS, (2, 256 * MIB, 256 * MIB))
    assert peer.ledger.total() == 0


def test_the_cap_holds_over_all_processes_of_the_container(machine: Machine, peer: Peer) -> None:
    with serving(peer, memory=1024 * MIB):
        programs = [machine.start(compiled("hold"), "64", "100") for _ in range(3)]
        held = [program.stdout.readline().split() for program in programs if program.stdout]
        total = peer.ledger.total()
        for program in programs:
            program.communicate()

    assert sum(int(count) for count, _ in held) == 16
    assert total == 1024 * MIB


@pytest.mark.parametrize("allocation", ["managed", "plain"])
def test_without_a_cap_the_card_is_the_end(machine: Machine, peer: Peer, allocation: str) -> None:
    with serving(peer, allocation=allocation):
        ended = machine.run(compiled("hold"), "1024", "20")

    assert ended.well().split() == ["15", "2"], "the 16th GiB has no room beside the context"


def test_a_cap_may_say_more_than_the_card(machine: Machine, peer: Peer) -> None:
    with serving(peer, allocation="managed", memory=18 * GIB):
        ended = machine.run(compiled("hold"), "1024", "20")

    assert ended.well().split() == ["18", "2"]


def test_the_card_is_the_end_over_all_processes_of_the_container(machine: Machine, peer: Peer) -> None:
    with serving(peer, allocation="managed"):
        programs = [machine.start(compiled("hold"), "512", "100") for _ in range(3)]
        held = [int(program.stdout.readline().split()[0]) for program in programs if program.stdout]
        for program in programs:
            program.communicate()

    # 16 GiB, less 300 MiB for each of the contexts that were there then.
    assert 29 <= sum(held) <= 31


@pytest.mark.parametrize(
    ("welcome", "asked"),
    [
        pytest.param({}, "own=18432:0 plain=15360:0 plain=1024:2", id="no cap: the card bounds only the rest"),
        pytest.param({"memory": 20 * GIB}, "own=18432:0 plain=3072:2 plain=2048:0 own=1:2", id="a cap bounds both"),
    ],
)
def test_managed_memory_of_the_programs_own_is_bounded_by_the_cap_alone(
    machine: Machine, peer: Peer, welcome: dict[str, int], asked: str
) -> None:
    words, answers = zip(*(word.split(":") for word in asked.split()), strict=True)
    with serving(peer, allocation="managed", **welcome):
        out, _ = machine.start(compiled("asking"), *words).communicate()

    assert tuple(out.split()) == answers


@pytest.mark.parametrize("allocation", ["managed", "plain"])
def test_without_a_cap_less_is_free_than_the_card_has_from_the_start(
    machine: Machine, peer: Peer, allocation: str
) -> None:
    with serving(peer, allocation=allocation):
        program = machine.start(compiled("asking"), "total", "left", "plain=1024", "left", "own=4096", "left")
        out, _ = program.communicate()

    total, at_first, first, then, second, at_last = map(int, out.split())
    assert (first, second) == (0, 0)
    assert 200 <= total - at_first <= 1024, "a context takes part of the card"
    assert at_first - then == 1024
    assert allocation == "plain" or at_last == then, "managed memory of the program's own takes none of the card's"


def test_an_allocation_tells_what_kind_it_is(machine: Machine, peer: Peer) -> None:
    with serving(peer, allocation="managed"):
        program = machine.start(compiled("hold"), "64", "2")
        assert program.stdout
        program.stdout.readline()
        pageable, unpageable, peak, context = peer.ledger.fields(0)
        program.communicate()

    assert (pageable, unpageable, peak) == (128 * MIB, 0, 128 * MIB)
    assert context > 0


def test_growth_is_reserved_before_it_happens_and_a_refusal_is_out_of_memory(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("hold"), "64", "100")
    connection = peer.accept()
    peer.welcome(connection)
    first = connection.hear("reserve")
    connection.say("reserved", gpu=first.words["gpu"], bytes=first.words["bytes"])
    room = int(first.words["bytes"])
    while True:
        again = connection.hear("reserve", passing=("using",))
        assert int(again.words["bytes"]) > room
        assert peer.ledger.total() <= room + 64 * MIB
        connection.say("error", code="no-memory", verb="reserve", message="no room")
        if int(again.words["bytes"]) <= room + 64 * MIB:
            break
    assert program.stdout
    count, result = program.stdout.readline().split()
    program.communicate()

    assert int(result) == 2
    assert int(count) * 64 * MIB <= room


def test_memory_use_is_reported_when_it_has_changed_by_a_step(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("hold"), "16", "8")
    connection = peer.accept()
    peer.welcome(connection)
    first = connection.hear("reserve")
    connection.say("reserved", gpu=first.words["gpu"], bytes=first.words["bytes"])
    told = [int(connection.hear("using", passing=()).words["pageable"]) for _ in range(2)]
    program.communicate()

    assert told == [64 * MIB, 128 * MIB]


def test_nvml_shows_the_cap(machine: Machine, peer: Peer) -> None:
    code = (
        "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); m = n.nvmlDeviceGetMemoryInfo(h)\n"
        "v = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2); print(m.total, m.free, m.used, v.total, v.free)"
    )
    with serving(peer, memory=512 * MIB):
        ended = machine.run(sys.executable, "-c", code)

    assert [int(word) for word in ended.well().split()] == [512 * MIB, 512 * MIB, 0, 512 * MIB, 512 * MIB]


@pytest.mark.slow
def test_without_a_daemon_the_first_question_waits_and_the_cap_is_shown_when_there_is_one(machine: Machine) -> None:
    code = (
        "import time, pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "def ask():\n"
        "    began = time.monotonic(); total = n.nvmlDeviceGetMemoryInfo(h).total\n"
        "    print(time.monotonic() - began, total, flush=True)\n"
        "for _ in range(5): ask()\n"
        "input(); ask()"
    )
    program = machine.start(sys.executable, "-c", code)
    try:
        assert program.stdout
        took = [float(program.stdout.readline().split()[0]) for _ in range(5)]
        peer = Peer(machine.sockets, machine.uuids())
        peer.welcome(peer.accept(), memory=512 * MIB)
        time.sleep(0.2)  # until it has been heard
        out, _ = program.communicate("\n")
        peer.stop()
    finally:
        program.kill()
        program.communicate()

    assert took[0] > 1.5
    assert max(took[1:]) < 0.5
    assert int(out.split()[1]) == 512 * MIB


@pytest.mark.slow
def test_the_ledger_is_exact_after_kills_in_mid_allocation() -> None:
    assert kill_in_mid_allocation(18)

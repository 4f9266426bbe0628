"""What is told of a node's GPUs: of those that are there, and of what somebody is on or has said; never old figures."""

from typing import Any

import pytest

from contract.wire.control import AskLoad, AskStatus, decode_request
from contract.wire.line import Line, decode
from contract.wire.load import decode_load
from contract.wire.status import State, Status, decode_status
from schedulerd.control.requests import Requests
from schedulerd.core.model import Container, Rules
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns


class Machine:
    """The requests of the control socket, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.turns = Turns(Rules(), epoch="0000000a", left_behind=self._left_behind)
        self.requests = Requests(self.turns, Node(), lambda: self.now)

    @staticmethod
    def _left_behind(uuid: str) -> Any:
        return (107.0, {"k": (1,)}) if uuid == "GPU-held" else (-float("inf"), {})

    def hear(self, *gpus: Any) -> None:
        for gpu in gpus:
            self.ask("figures", gpu=gpu, memory_total="1000", memory_used="10", temperature="40")

    def ask(self, verb: str, **words: Any) -> Any:
        return [decode(raw) for raw in self.requests.answer(decode_request(Line(verb, words)))]

    def gpus(self) -> Any:
        """Return each GPU's temperature by the status, or None."""
        return {gpu.uuid: gpu.temperature for gpu in self.status().gpus}

    def status(self) -> Status:
        return decode_status(self.ask("status"))

    def load(self) -> Any:
        raw = b"".join(self.requests.answer(AskLoad()))
        return decode_load(iter(raw.splitlines(keepends=True)))


@pytest.fixture
def machine() -> Any:
    return Machine()


def test_a_gpu_that_is_gone_is_told_of_no_more(machine: Any) -> None:
    machine.hear("GPU-1", "MIG-1")
    machine.now += 20.0
    machine.hear("GPU-1")

    assert machine.gpus() == {"GPU-1": 40}
    assert [gpu.uuid for gpu in machine.load().gpus] == ["GPU-1"]


def connected(machine: Any, gpu: str) -> None:
    machine.turns.join(1, Container(key="k", gpus=(gpu,)))


def paused(machine: Any, gpu: str) -> None:
    machine.ask("pause", gpu=gpu)


def drained(machine: Any, gpu: str) -> None:
    machine.ask("drain", gpu=gpu)


def with_a_turn_of_its_own(machine: Any, gpu: str) -> None:
    machine.ask("quantum", time="3s", gpu=gpu)


def nothing(_machine: Any, _gpu: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("happens", "gpu"),
    [
        pytest.param(connected, "GPU-2", id="a container has it"),
        pytest.param(paused, "GPU-2", id="it is paused"),
        pytest.param(drained, "GPU-2", id="it is drained"),
        pytest.param(with_a_turn_of_its_own, "GPU-2", id="its turns were set"),
        pytest.param(nothing, "GPU-held", id="somebody held it under the daemon before"),
    ],
)
def test_what_is_known_of_it_is_told_without_nvmls_figures_which_may_be_old(
    machine: Any, happens: Any, gpu: str
) -> None:
    machine.hear("GPU-1", gpu)
    machine.now += 20.0
    machine.hear("GPU-1")
    happens(machine, gpu)

    assert machine.gpus() == {"GPU-1": 40, gpu: None}
    assert [one.temperature for one in machine.load().gpus] == [40, None]


@pytest.mark.parametrize("words", [{"gpu": "GPU-sick"}, {}], ids=["by its name", "with all"])
def test_a_sick_card_that_tells_nothing_and_that_nobody_has_can_be_paused(machine: Any, words: Any) -> None:
    machine.hear("GPU-1", "GPU-sick")
    machine.now += 20.0
    machine.hear("GPU-1")

    assert machine.ask("pause", **words) == [Line("ok")]
    assert machine.turns.gpu("GPU-sick").paused == "paused"


def test_what_a_card_holds_is_remembered_while_it_does_not_tell(machine: Any) -> None:
    machine.hear("GPU-1")
    machine.now += 20.0

    assert machine.turns.gpu("GPU-1").capacity == 1000


@pytest.mark.parametrize(
    ("passed", "age_ms"),
    [
        pytest.param((0.0,), 0, id="just now"),
        pytest.param((3.0, 1.0), 4000, id="one of them a while ago"),
        pytest.param((30.0, 1.0), 1000, id="one of them so long ago that it is left out"),
        pytest.param((1.0, 30.0), 30_000, id="all of them long ago"),
        pytest.param((), 100_000, id="never"),
    ],
)
def test_the_load_is_as_old_as_the_oldest_figures_in_it(machine: Any, passed: tuple[float, ...], age_ms: int) -> None:
    for number, seconds in enumerate(passed):
        machine.hear(f"GPU-{number}")
        machine.now += seconds

    assert machine.load().age_ms == age_ms


def holding(machine: Any) -> Any:
    """Return a container that began to hold its GPU five seconds ago, with another that waits."""
    for process, key in ((1, "a"), (2, "b")):
        machine.turns.join(process, Container(key=key, gpus=("GPU-1",)))
        machine.turns.want(process, ("GPU-1",), machine.now)
    machine.now += 5.0
    return machine.turns.gpu("GPU-1")


@pytest.mark.parametrize("request_", [AskStatus(), AskLoad()], ids=["the status", "the load"])
def test_to_read_charges_no_time_and_adds_no_gpu(machine: Any, request_: Any) -> None:
    gpu = holding(machine)
    share = machine.turns.containers["a"].shares["GPU-1"]

    def charged() -> Any:
        busy = gpu.busy
        return share.held, share.virtual, gpu.accrued_at, busy.total, len(busy.samples), [*machine.turns.grants.gpus]

    before = charged()
    list(machine.requests.answer(request_))
    assert charged() == before


def test_what_is_told_counts_the_time_up_to_now(machine: Any) -> None:
    holding(machine)
    status = machine.status()
    (gpu,) = status.gpus

    assert [(place.key, place.state, place.held_us) for place in status.places] == [
        ("a", State.HOLDS, 5_000_000),
        ("b", State.WAITS, 0),
    ]
    assert (gpu.busy, gpu.busy_ms) == (0.5, 5000)
    assert machine.load().gpus[0].busy == 0.5


@pytest.mark.parametrize(
    ("seconds", "busy"),
    [
        pytest.param(0.0, 0.5, id="just now"),
        pytest.param(3.0, 0.5, id="while all of it is within the last ten seconds"),
        pytest.param(7.0, 0.3, id="when two of its five seconds are longer ago"),
        pytest.param(20.0, 0.0, id="long ago"),
    ],
)
def test_busy_time_of_a_turn_that_is_over_fades(machine: Any, seconds: float, busy: float) -> None:
    machine.turns.join(1, Container(key="a", gpus=("GPU-1",)))
    machine.turns.want(1, ("GPU-1",), machine.now)
    machine.now += 5.0
    machine.turns.leave(1, machine.now)
    machine.hear("GPU-1")
    machine.now += seconds
    machine.hear("GPU-1")

    assert machine.load().gpus[0].busy == pytest.approx(busy)


def test_to_look_for_a_gpu_does_not_add_it(machine: Any) -> None:
    with pytest.raises(KeyError):
        machine.turns.gpu("GPU-77")

    assert machine.turns.grants.gpus == {}
    assert machine.turns.add_gpu("GPU-77") is machine.turns.add_gpu("GPU-77") is machine.turns.gpu("GPU-77")

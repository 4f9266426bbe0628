"""What is told of a node's GPUs: of those that are there, and of what somebody is on or has said; never old figures."""

import pytest

from contract.line import Line, decode
from contract.load import decode_load
from schedulerd.control.server import Requests
from schedulerd.core.model import Container, Rules
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns


class Machine:
    """The requests of the control socket, and a clock."""

    def __init__(self):
        self.now = 100.0
        self.turns = Turns(Rules(), epoch="0000000a", left_behind=self._left_behind)
        self.requests = Requests(self.turns, Node(), lambda: self.now)

    @staticmethod
    def _left_behind(uuid):
        return (107.0, {"k": (1,)}) if uuid == "GPU-held" else (-float("inf"), {})

    def hear(self, *gpus):
        for gpu in gpus:
            self.ask("figures", gpu=gpu, memory_total="1000", memory_used="10", temperature="40")

    def ask(self, verb, **words):
        return [decode(raw.rstrip(b"\n")) for raw in self.requests.answer(Line(verb, words)) if raw]

    def gpus(self):
        """By the status: each GPU's temperature, or None."""
        return {line.words["uuid"]: line.words.get("temperature") for line in self.ask("status") if line.verb == "gpu"}

    def load(self):
        raw = b"".join(self.requests.answer(Line("load")))
        return decode_load(iter(raw.splitlines(keepends=True)))


@pytest.fixture
def machine():
    return Machine()


def test_a_gpu_that_is_gone_is_told_of_no_more(machine):
    machine.hear("GPU-1", "MIG-1")
    machine.now += 20.0
    machine.hear("GPU-1")

    assert machine.gpus() == {"GPU-1": "40"}
    assert [gpu.uuid for gpu in machine.load().gpus] == ["GPU-1"]


def connected(machine, gpu):
    machine.turns.join(1, Container(key="k", gpus=(gpu,)))


def paused(machine, gpu):
    machine.ask("pause", gpu=gpu)


def drained(machine, gpu):
    machine.ask("drain", gpu=gpu)


def with_a_turn_of_its_own(machine, gpu):
    machine.ask("quantum", time="3s", gpu=gpu)


def nothing(_machine, _gpu):
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
def test_what_is_known_of_it_is_told_without_nvmls_figures_which_may_be_old(machine, happens, gpu):
    machine.hear("GPU-1", gpu)
    machine.now += 20.0
    machine.hear("GPU-1")
    happens(machine, gpu)

    assert machine.gpus() == {"GPU-1": "40", gpu: None}
    assert [one.temperature for one in machine.load().gpus] == [40, None]


@pytest.mark.parametrize("words", [{"gpu": "GPU-sick"}, {}], ids=["by its name", "with all"])
def test_a_sick_card_that_tells_nothing_and_that_nobody_has_can_be_paused(machine, words):
    machine.hear("GPU-1", "GPU-sick")
    machine.now += 20.0
    machine.hear("GPU-1")

    assert machine.ask("pause", **words) == [Line("ok")]
    assert machine.turns.gpu("GPU-sick").paused == "paused"


def test_what_a_card_holds_is_remembered_while_it_does_not_tell(machine):
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
def test_the_load_is_as_old_as_the_oldest_figures_in_it(machine, passed, age_ms):
    for number, seconds in enumerate(passed):
        machine.hear(f"GPU-{number}")
        machine.now += seconds

    assert machine.load().age_ms == age_ms

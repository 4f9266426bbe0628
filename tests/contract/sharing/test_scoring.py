"""What each figure of a GPU's load costs, and how weights are read."""

import pytest

from contract.errors import BadValue
from contract.sharing.scoring import Weights, penalties, score
from contract.wire.load import GpuLoad


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        pytest.param(GpuLoad(uuid="A", busy=0.5), {"busy": 0.5, "waiting": 0.0}, id="half of the time"),
        pytest.param(GpuLoad(uuid="A", waiting=1), {"busy": 0.0, "waiting": 0.25}, id="one that waits: half of 0.5"),
        pytest.param(GpuLoad(uuid="A", waiting=3), {"busy": 0.0, "waiting": 0.375}, id="three that wait"),
        pytest.param(
            GpuLoad(uuid="A", memory_used=1, memory_total=4),
            {"busy": 0.0, "waiting": 0.0, "memory": 0.125},
            id="a quarter of the memory",
        ),
        pytest.param(
            GpuLoad(uuid="A", memory_used=0, memory_total=4),
            {"busy": 0.0, "waiting": 0.0, "memory": 0.0},
            id="no memory in use is known",
        ),
        pytest.param(GpuLoad(uuid="A", memory_used=1), {"busy": 0.0, "waiting": 0.0}, id="memory of unknown size"),
        pytest.param(GpuLoad(uuid="A", memory_total=4), {"busy": 0.0, "waiting": 0.0}, id="memory in use is unknown"),
        pytest.param(
            GpuLoad(uuid="A", memory_used=1, memory_total=0), {"busy": 0.0, "waiting": 0.0}, id="a size of zero"
        ),
        pytest.param(
            GpuLoad(uuid="A", temperature=50),
            {"busy": 0.0, "waiting": 0.0, "temperature": 0.05},
            id="50 degrees of 100",
        ),
        pytest.param(GpuLoad(uuid="A", power=500.0), {"busy": 0.0, "waiting": 0.0, "power": 0.05}, id="500 W of 1000"),
    ],
)
def test_what_a_load_costs(load: GpuLoad, expected: dict[str, float]) -> None:
    (parts,) = score([load], Weights()).values()

    assert parts == pytest.approx(expected)
    assert penalties([load], Weights()) == pytest.approx({"A": sum(expected.values())})


def test_the_default_weights_are_those_of_the_docs() -> None:
    text = "taken=1.0 busy=1.0 waiting=0.5 memory=0.5 temperature=0.1 power=0.1"

    assert Weights.default_text() == text.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("default", Weights(), id="the defaults"),
        pytest.param("busy=2, power=0", Weights(busy=2, power=0), id="the others keep their default"),
        pytest.param("taken=1000", Weights(taken=1000), id="the largest"),
    ],
)
def test_weights_are_read(text: str, expected: Weights) -> None:
    assert Weights.read(text) == expected


@pytest.mark.parametrize("text", ["", "speed=1", "busy=1,busy=1", "busy=x", "busy=-0.1", "busy=1000.5", "busy=nan"])
def test_odd_weights_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not allowed"):
        Weights.read(text)

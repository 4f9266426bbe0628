"""Which GPUs are shared, and why the others are refused."""

import pytest

from contract.sharing.inventory import Gpu
from deviceplugin.core.inventory import Rules, take_stock
from tests.fakes.gpus import make_gpu

GPU = make_gpu(0, model="NVIDIA L4")


@pytest.mark.parametrize(
    ("rules", "slots"),
    [
        pytest.param(Rules(slots=10), 10, id="one number for all"),
        pytest.param(Rules(slots=10, slots_for={"NVIDIA L4": 4}), 4, id="a model's own number"),
        pytest.param(Rules(slots=10, slots_for={GPU.uuid: 2, "NVIDIA L4": 4}), 2, id="a UUID goes before its model"),
        pytest.param(Rules(slots=10, slots_for={"NVIDIA T4": 4}), 10, id="another model's number is not its"),
    ],
)
def test_number_of_slots(rules: Rules, slots: int) -> None:
    (shared,) = take_stock([GPU], rules).shared

    assert shared.ids() == tuple(f"{GPU.uuid}__{ordinal}" for ordinal in range(slots))


@pytest.mark.parametrize(
    ("gpu", "rules", "foreign", "code"),
    [
        pytest.param(make_gpu(0, uuid="GPU-" + "a" * 60), Rules(slots=10), {}, "OddUuid", id="too long for an id"),
        pytest.param(make_gpu(0, uuid="gpu 0"), Rules(slots=10), {}, "OddUuid", id="not a UUID"),
        pytest.param(make_gpu(0, mig=True), Rules(slots=10), {}, "MigEnabled", id="MIG is on"),
        pytest.param(GPU, Rules(slots=10, exclude=frozenset({GPU.uuid})), {}, "Excluded", id="excluded by UUID"),
        pytest.param(GPU, Rules(slots=10, exclude=frozenset({"NVIDIA L4"})), {}, "Excluded", id="excluded by model"),
        pytest.param(
            GPU, Rules(slots=10), {GPU.uuid: "nvidia.com/gpu"}, "ServedByAnother", id="NVIDIA's plugin has it"
        ),
    ],
)
def test_a_gpu_that_is_not_shared_says_why(gpu: Gpu, rules: Rules, foreign: dict[str, str], code: str) -> None:
    inventory = take_stock([gpu, make_gpu(1)], rules, foreign)

    assert [shared.gpu.uuid for shared in inventory.shared] == [make_gpu(1).uuid]
    assert inventory.refused[gpu.uuid].code == code
    assert gpu.uuid in inventory.refused[gpu.uuid].cause
    assert inventory.refused[gpu.uuid].remedy


def test_the_order_in_which_nvml_counts_changes_nothing() -> None:
    gpus = [make_gpu(number) for number in range(4)]

    assert take_stock(gpus, Rules(slots=2)) == take_stock(reversed(gpus), Rules(slots=2))

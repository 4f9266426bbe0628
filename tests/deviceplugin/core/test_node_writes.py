"""The labels of the Node, and how often they are written."""

import json

import pytest

from contract.words import node
from contract.words.node import label_value
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.core.node_labels import NodeLabels, describe_node
from deviceplugin.core.node_writes import LabelsReport, labels_failed, labels_written, must_write_labels
from tests.fakes.gpus import make_gpu

A, B, C = (make_gpu(number, model="NVIDIA L4", compute="8.9") for number in range(3))
DEVICE_LIST = DeviceList(take_stock([A, B, C], Rules(slots=10)))
ROOM = {A.uuid: 10, B.uuid: 10, C.uuid: 10}


def test_labels_give_count_model_memory_compute_and_the_annotation_free_slots() -> None:
    words = describe_node(DEVICE_LIST, {A.uuid: 3, B.uuid: 0, C.uuid: 10})

    assert words.labels == {
        node.COUNT: "3",
        node.MODEL: "NVIDIA-L4",
        node.MEMORY: "16384",
        node.COMPUTE: "8.9",
    }
    assert json.loads(words.annotations[node.FREE_SLOTS]) == {A.uuid: 3, B.uuid: 0, C.uuid: 10}


def test_with_several_kinds_of_gpu_the_labels_describe_the_smallest() -> None:
    big = make_gpu(1, model="NVIDIA H100", memory_bytes=80 << 30, compute="10.0")
    labels = describe_node(DeviceList(take_stock([A, big], Rules(slots=10))), {}).labels

    assert (labels[node.MODEL], labels[node.MEMORY], labels[node.COMPUTE]) == (
        "mixed",
        "16384",
        "8.9",
    )


def test_an_unknown_memory_gives_no_label() -> None:
    silent = make_gpu(1, memory_bytes=0)
    alone = describe_node(DeviceList(take_stock([silent], Rules(slots=10))), {}).labels
    beside = describe_node(DeviceList(take_stock([A, silent], Rules(slots=10))), {}).labels

    assert node.MEMORY not in alone
    assert beside[node.MEMORY] == "16384"


def test_a_node_without_gpus_has_count_zero() -> None:
    assert describe_node(DeviceList(), {}) == NodeLabels({node.COUNT: "0"}, {node.FREE_SLOTS: "{}"})


@pytest.mark.parametrize(
    ("free", "unhealthy", "refused_size", "count"),
    [
        pytest.param(ROOM, frozenset(), 0, "3", id="all are there"),
        pytest.param(ROOM, frozenset({A.uuid}), 0, "2", id="an unhealthy GPU does not count"),
        pytest.param({A.uuid: 5, B.uuid: 0, C.uuid: 0}, frozenset(), 0, "3", id="full GPUs count while nobody failed"),
        pytest.param({A.uuid: 5, B.uuid: 0, C.uuid: 0}, frozenset(), 2, "1", id="two were refused: one has room"),
        pytest.param({A.uuid: 5, B.uuid: 1, C.uuid: 0}, frozenset(), 2, "3", id="two have room again"),
        pytest.param({A.uuid: 5, B.uuid: 1, C.uuid: 0}, frozenset(), 3, "2", id="three were refused: two have room"),
    ],
)
def test_the_count_that_affinity_compares(
    free: dict[str, int], unhealthy: frozenset[str], refused_size: int, count: str
) -> None:
    device_list = DeviceList(DEVICE_LIST.inventory, unhealthy)

    assert describe_node(device_list, free, refused_size=refused_size).labels[node.COUNT] == count


@pytest.mark.parametrize(
    ("text", "value"), [("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"), (" a/b ", "a-b"), ("x" * 99, "x" * 63)]
)
def test_a_model_becomes_a_label(text: str, value: str) -> None:
    assert label_value(text) == value


FIRST, SECOND = NodeLabels({"a": "1"}, {}), NodeLabels({"a": "2"}, {})
TOLD = labels_written(FIRST, now=100.0, seconds=2.0)


@pytest.mark.parametrize(
    ("report", "wanted", "now", "urgent", "expected"),
    [
        pytest.param(LabelsReport(), FIRST, 0.0, False, True, id="the first time, at once"),
        pytest.param(TOLD, FIRST, 150.0, False, False, id="unchanged: nothing"),
        pytest.param(TOLD, SECOND, 101.0, False, False, id="changed too soon: later"),
        pytest.param(TOLD, SECOND, 102.0, False, True, id="changed: when the time has come"),
        pytest.param(TOLD, SECOND, 101.0, True, True, id="urgent: at once"),
        pytest.param(TOLD, FIRST, 101.0, True, False, id="urgent but unchanged: nothing"),
        pytest.param(TOLD, FIRST, 400.0, False, True, id="unchanged for long: somebody may have taken them away"),
        pytest.param(labels_failed(TOLD, now=101.0, seconds=2.0), SECOND, 102.0, True, False, id="failed: not at once"),
        pytest.param(labels_failed(TOLD, now=101.0, seconds=2.0), SECOND, 103.0, False, True, id="failed: later"),
    ],
)
def test_when_labels_are_written(
    report: LabelsReport, wanted: NodeLabels, now: float, urgent: bool, expected: bool
) -> None:
    assert must_write_labels(report, wanted, now=now, urgent=urgent) is expected


@pytest.mark.parametrize(
    ("failures", "wait"),
    [
        pytest.param(1, 2.0, id="the first"),
        pytest.param(3, 8.0, id="then later"),
        pytest.param(10, 60.0, id="a minute at most"),
        pytest.param(2000, 60.0, id="away for more than a day"),
    ],
)
def test_each_failed_write_waits_longer(failures: int, wait: float) -> None:
    report = LabelsReport()
    for _ in range(failures):
        report = labels_failed(report, now=0.0, seconds=2.0)

    assert report.not_before == wait

"""The checks of Allocate, and the texts of an allocation."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contract.allocation import Allocation, key_of, parse, render
from contract.errors import BadAllocation
from contract.words.node import DevicesFrom
from deviceplugin.core import cdi
from deviceplugin.core.allocation import allocate
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.errors import BadSpec, Refused
from deviceplugin.layout import Layout
from tests.fakes.gpus import make_gpu, make_inventory

A, B, C = (make_gpu(number).uuid for number in range(3))
INVENTORY = make_inventory(3)
LAYOUT = Layout(Path("/node"), Path("/cdi"))
ENVIRONMENT = GpuDevices(DevicesFrom.ENVIRONMENT, "so it is")


@pytest.mark.parametrize(
    ("device_ids", "most", "code"),
    [
        pytest.param([f"{A}__0", f"{A}__1"], 0, "SameGpu", id="two slots of one GPU"),
        pytest.param([f"{A}__0", f"{B}__1", f"{A}__2"], 0, "SameGpu", id="two of three on one GPU"),
        pytest.param([f"{A}__0", f"{B}__0"], 1, "TooManyForContainer", id="more than a container may have"),
        pytest.param([f"{A}__10"], 0, "UnknownDevice", id="a slot beyond the last"),
        pytest.param(["GPU-ffff__0"], 0, "UnknownDevice", id="a GPU that is not here"),
        pytest.param([], 0, "NothingAsked", id="no slot at all"),
    ],
)
def test_a_container_that_may_not_have_these_slots_is_told_why(device_ids: list[str], most: int, code: str) -> None:
    with pytest.raises(Refused) as caught:
        allocate(device_ids, INVENTORY, most=most, now=1.0)

    assert caught.value.refusal.code == code
    assert str(caught.value).startswith(f"{code}: ")


def test_slots_of_several_gpus_are_allocated() -> None:
    allocation = allocate([f"{B}__3", f"{A}__0"], INVENTORY, most=2, now=7.5)

    assert (allocation.uuids, allocation.device_ids) == ((A, B), (f"{A}__0", f"{B}__3"))


def test_the_key_follows_from_the_slots_alone() -> None:
    assert key_of(["b", "a"]) == key_of(["a", "b"]) != key_of(["a"])
    assert len(key_of(["a"])) == 16


def test_the_record_says_what_the_scheduler_reads() -> None:
    allocation = allocate([f"{A}__0"], INVENTORY, most=0, now=7.5)
    expected = {"key": allocation.key, "uuids": [A], "device_ids": [f"{A}__0"], "created": 7.5}
    bound = replace(allocation, names=("a", "b"), binding=2, pod="uid")

    assert json.loads(render(allocation)) == {**expected, "names": [], "binding": 0, "pod": ""}
    assert parse(render(allocation)) == allocation
    assert parse(render(bound)) == bound


def test_a_record_of_an_older_plugin_has_told_its_key_and_is_bound() -> None:
    record = parse(json.dumps({"key": "k", "uuids": [A], "device_ids": [f"{A}__0"], "created": 7.5}))

    assert (record.names, record.binding, record.pod) == (("k",), 1, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty, as after a power cut"),
        pytest.param('{"key": "a"', id="half"),
        pytest.param("[]", id="not an object"),
        pytest.param('{"key": "a", "uuids": 3, "device_ids": [], "created": 1}', id="a number for a list"),
    ],
)
def test_a_record_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(BadAllocation):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"key": "a", "uuids": [], "device_ids": ["x"], "created": 1}', id="a key that is not its slots'"),
        pytest.param('{"key": "a", "uuids": [], "device_ids": [], "created": 1}', id="no slots"),
    ],
)
def test_a_record_whose_key_does_not_follow_from_its_slots_is_not_the_plugins(text: str) -> None:
    assert not parse(text).has_its_own_key


def test_the_spec_carries_hook_preload_file_own_folder_its_proof_and_visible_gpus() -> None:
    spec = json.loads(cdi.render_spec(cdi.build_spec(bound(A, B), LAYOUT, ENVIRONMENT)))
    (device,) = spec["devices"]
    edits, folder = spec["containerEdits"], f"/node/allocations/{bound(A, B).key}"

    assert f"{spec['kind']}={device['name']}" == cdi.device_name("told") == "nvshare.com/vgpu=told"
    assert edits["env"] == device["containerEdits"]["env"] == [f"NVIDIA_VISIBLE_DEVICES={A},{B}"]
    assert [(mount["hostPath"], mount["containerPath"]) for mount in edits["mounts"]] == [
        ("/node/hook", "/usr/lib/nvshare"),
        ("/node/hook/ld.so.preload", "/etc/ld.so.preload"),
        (folder, "/var/run/nvshare/mine"),
        (f"{folder}/bound-1", "/var/run/nvshare/mine/bound-1"),
    ]
    assert all("ro" in mount["options"] and "noexec" not in mount["options"] for mount in edits["mounts"])


def bound(*uuids: str) -> Allocation:
    allocation = allocate([f"{uuid}__0" for uuid in uuids], INVENTORY, most=0, now=1.0)
    return replace(allocation, names=("told",), binding=1)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"devices": []}, id="no device"),
        pytest.param({"kind": "nvidia.com/gpu"}, id="another's kind"),
        pytest.param({"cdiVersion": "9"}, id="another version"),
        pytest.param({"devices": [{"name": "-", "containerEdits": {}}]}, id="no name, no edits"),
        pytest.param(
            {"devices": [{"name": "a", "containerEdits": {"env": ["A"]}}]},
            id="an environment without =",
        ),
        pytest.param({"containerEdits": {"mounts": [{"hostPath": "x"}]}}, id="a relative path"),
    ],
)
def test_a_spec_that_a_runtime_would_refuse_is_not_written(damage: dict[str, object]) -> None:
    good = cdi.build_spec(bound(A), LAYOUT, ENVIRONMENT)

    assert cdi.render_spec(good)
    with pytest.raises(BadSpec):
        cdi.render_spec(good | damage)

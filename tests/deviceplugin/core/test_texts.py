"""What the core reads of others and writes for others: the checkpoint, the CDI spec, events on the Node."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.words import names, paths
from contract.words.node import DevicesFrom
from contract.words.reasons import ReasonCode, Refusal
from deviceplugin.core.allocation import allocate
from deviceplugin.core.cdi import (
    Bind,
    build_spec,
    complaints_about,
    device_name,
    edits_of,
    file_name,
    plain_edits,
    render_spec,
)
from deviceplugin.core.checkpoint import gpu_in, parse_checkpoint, parse_foreign
from deviceplugin.core.events import (
    Allocated,
    CallRefused,
    GpuRecovered,
    GpuRefused,
    GpuUnhealthy,
    NodeEvent,
    PluginEvent,
    SchedulerSilent,
    node_event_of,
)
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.errors import BadSpec, Refused
from deviceplugin.layout import Layout
from tests.fakes.gpus import make_gpu, make_inventory

A, B = (make_gpu(number).uuid for number in range(2))
ALLOCATION = allocate((f"{A}__0", f"{B}__0"), make_inventory(2), most=0, now=0.0)
LAYOUT = Layout(Path("/node"), Path("/cdi"))
ENVIRONMENT = GpuDevices(DevicesFrom.ENVIRONMENT, "so it is")
REFUSAL = Refusal(ReasonCode("Excluded"), "The cause.", "The remedy.")


@pytest.mark.parametrize(
    ("told", "event"),
    [
        (CallRefused(REFUSAL, 2), NodeEvent("Excluded", "The cause. The remedy.", is_warning=True)),
        (GpuRefused(A, REFUSAL), NodeEvent("Excluded", "The cause. The remedy.", is_warning=True)),
        (GpuUnhealthy("A", "why"), NodeEvent("GpuUnhealthy", "GPU A gets no new containers: why.", is_warning=True)),
        (GpuRecovered("A"), NodeEvent("GpuRecovered", "GPU A gets new containers again.", is_warning=False)),
        (Allocated(ALLOCATION), None),
    ],
)
def test_the_node_event_of_a_plugin_event(told: PluginEvent, event: NodeEvent | None) -> None:
    assert node_event_of(told) == event


def test_a_scheduler_that_does_not_answer_is_a_warning() -> None:
    event = node_event_of(SchedulerSilent(ALLOCATION))

    assert event is not None
    assert (event.reason, event.is_warning) == ("SchedulerNotAnswering", True)


# ---------------------------------------------------------------------------------------------- the checkpoint
def book(*entries: tuple[str, dict[str, list[str]]], registered: Any = None) -> str:
    rows = [{"ResourceName": name, "DeviceIDs": ids} for name, ids in entries]
    return json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": registered}})


def test_ids_of_every_numa_node_are_one_containers() -> None:
    text = book(("ours", {"0": ["a"], "1": ["b"]}), ("theirs", {"0": ["c"]}))

    assert parse_checkpoint(text, "ours") == frozenset({frozenset({"a", "b"})})


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [{}]}}'])
def test_an_odd_checkpoint_is_not_known(text: str) -> None:
    assert parse_checkpoint(text, "ours") is None
    assert parse_foreign(text, "ours") == {}


def test_an_empty_checkpoint_is_known() -> None:
    assert parse_checkpoint('{"Data": {"PodDeviceEntries": null}}', "ours") == frozenset()
    assert parse_foreign('{"Data": {"PodDeviceEntries": null}}', "ours") == {}


def test_gpus_of_others_are_found_in_pods_and_among_the_registered() -> None:
    text = book(("ours", {"0": ["GPU-1"]}), ("r", {"0": ["GPU-2::7"]}), registered={"s": ["GPU-3", "x"], "t": None})

    assert parse_foreign(text, "ours") == {"GPU-2": "r", "GPU-3": "s"}


@pytest.mark.parametrize(("device_id", "gpu"), [("GPU-1", "GPU-1"), ("GPU-1::2", "GPU-1"), ("MIG-1", ""), ("", "")])
def test_the_gpu_in_an_id_of_another_plugin(device_id: str, gpu: str) -> None:
    assert gpu_in(device_id) == gpu


# ---------------------------------------------------------------------------------------------- CDI
def test_an_allocation_carries_the_hook_its_loader_file_and_its_socket() -> None:
    edits = edits_of(ALLOCATION, LAYOUT)

    assert edits.env == {}
    assert edits.binds == (
        Bind(LAYOUT.hook_folder, paths.CONTAINER_HOOK_FOLDER, read_only=True),
        Bind(LAYOUT.preload_file, paths.CONTAINER_PRELOAD_FILE, read_only=True),
        Bind(LAYOUT.allocation(ALLOCATION.key), f"{paths.CONTAINER_SOCKETS}/{paths.OWN_FOLDER}", read_only=True),
    )
    assert plain_edits(ALLOCATION, LAYOUT).env == {names.ENV_VISIBLE_DEVICES: f"{A},{B}"}


def test_a_spec_is_written_as_the_runtime_reads_it() -> None:
    bound = replace(ALLOCATION, names=("n-1", "n-2"), binding=3)
    text = render_spec(build_spec(bound, LAYOUT, ENVIRONMENT))
    spec = json.loads(text)
    visible = [f"{names.ENV_VISIBLE_DEVICES}={A},{B}"]

    assert (spec["cdiVersion"], spec["kind"]) == ("0.5.0", names.CDI_KIND)
    assert spec["devices"] == [{"name": name, "containerEdits": {"env": visible}} for name in ("n-1", "n-2")]
    assert spec["containerEdits"]["env"] == visible
    assert [sorted(mount) for mount in spec["containerEdits"]["mounts"]] == 4 * [
        ["containerPath", "hostPath", "options"]
    ]
    assert spec["containerEdits"]["mounts"][-1]["hostPath"] == str(LAYOUT.allocation(ALLOCATION.key) / "bound-3")
    assert spec["containerEdits"]["mounts"][-1]["containerPath"] == "/var/run/nvshare/mine/bound-3"
    assert text.endswith("}\n")


@pytest.mark.parametrize(("read_only", "first"), [(True, "ro"), (False, "rw")])
def test_the_options_of_a_mount(read_only: bool, first: str) -> None:
    assert Bind(Path("/a"), "/b", read_only=read_only).options == [first, "nosuid", "nodev", "bind"]


def test_a_device_is_named_by_its_kind_and_key() -> None:
    assert device_name("k") == f"{names.CDI_KIND}=k"
    assert file_name("k") == names.CDI_KIND.replace("/", "-") + "_k.json"


def spec_with(**changes: Any) -> dict[str, Any]:
    mounts = [{"hostPath": "/a", "containerPath": "/b"}]
    device = {"name": changes.pop("name", "a-1"), "containerEdits": {"env": changes.pop("env", ["A=b"])}}
    edits = {"mounts": changes.pop("mounts", mounts)}
    return {"cdiVersion": "0.5.0", "kind": names.CDI_KIND, "containerEdits": edits, "devices": [device], **changes}


def test_a_good_spec_has_no_complaint() -> None:
    assert complaints_about(spec_with()) == []
    assert complaints_about(spec_with(mounts=[{"hostPath": "tmpfs", "type": "tmpfs", "containerPath": "/b"}])) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"cdiVersion": "9.6.0"}, "version", id="another version"),
        pytest.param({"kind": "x/y"}, "version", id="another kind"),
        pytest.param({"devices": []}, "no devices", id="no device"),
        pytest.param({"name": "-a"}, "not a device name", id="a name that begins with a dash"),
        pytest.param({"name": ""}, "not a device name", id="no name"),
        pytest.param({"env": []}, "environment", id="no environment"),
        pytest.param({"env": ["A=b", "=b"]}, "environment", id="a variable without a name"),
        pytest.param({"env": ["A=b", "A"]}, "environment", id="a variable without a value"),
        pytest.param({"mounts": []}, "no mounts", id="no mount"),
        pytest.param({"mounts": [{"hostPath": "a", "containerPath": "/b"}]}, "absolute", id="a relative host path"),
        pytest.param({"mounts": [{"hostPath": "/a", "containerPath": "b"}]}, "absolute", id="a relative path inside"),
        pytest.param({"mounts": [{"hostPath": "/a"}]}, "absolute", id="no path inside"),
    ],
)
def test_each_fault_of_a_spec_is_one_complaint(changes: dict[str, Any], says: str) -> None:
    (complaint,) = complaints_about(spec_with(**changes))

    assert says in complaint
    with pytest.raises(BadSpec, match="not valid"):
        render_spec(spec_with(**changes))


# ---------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(("most", "refused"), [(0, False), (1, True), (2, False)])
def test_how_many_slots_a_container_may_have(most: int, refused: bool) -> None:
    ids = (f"{B}__1", f"{A}__3")
    if refused:
        with pytest.raises(Refused, match="at most 1"):
            allocate(ids, make_inventory(2), most=most, now=7.0)
    else:
        given = allocate(ids, make_inventory(2), most=most, now=7.0)
        assert (given.device_ids, given.uuids) == ((f"{A}__3", f"{B}__1"), (A, B))


def test_gpus_that_are_registered_are_found_though_no_pod_has_any() -> None:
    text = '{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {"r": ["GPU-1"]}}}'

    assert parse_foreign(text, "ours") == {"GPU-1": "r"}


def test_a_device_without_edits_has_neither_environment_nor_mounts() -> None:
    spec = {"cdiVersion": "0.5.0", "kind": names.CDI_KIND, "devices": [{"name": "a"}]}

    assert [complaint.partition(" ")[0] for complaint in complaints_about(spec)] == ["its", "it"]

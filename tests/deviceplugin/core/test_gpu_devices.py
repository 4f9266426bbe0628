"""Where a node's GPU devices come from: the table of what may lie in its CDI folders."""

from collections.abc import Sequence
from typing import Any

import pytest

from contract.words.node import DevicesFrom
from deviceplugin.core.device_edits import ForeignSpec, read_spec
from deviceplugin.core.gpu_devices import Card, FoundSpecs, GpuDevices, Malformed, Question, find_gpu_devices
from deviceplugin.errors import NoDevices

A, B = Card("GPU-a", 0), Card("GPU-b", 1)
NVIDIA, PLUGIN, MANAGEMENT = "nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu", "management.nvidia.com/gpu"
CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
CAP = "nvidia-caps/nvidia-cap21"
Json = dict[str, Any]


def nodes(*names: str) -> Json:
    return {"deviceNodes": [{"path": f"/dev/{name}"} for name in names]}


def spec(kind: str, devices: dict[str, Json], *, common: Json | None = None, **more: Any) -> ForeignSpec:
    document = {
        "cdiVersion": more.pop("version", "0.5.0"),
        "kind": kind,
        "containerEdits": common or {**nodes(*CONTROL), "env": ["NVIDIA_VISIBLE_DEVICES=all", "LIB=1"]},
        "devices": [{"name": name, "containerEdits": edits} for name, edits in devices.items()],
    }
    return read_spec(more.pop("file", f"/etc/cdi/{kind.replace('/', '-')}.yaml"), document, more.pop("priority", 0))


BY_UUID = {"GPU-a": nodes("nvidia0"), "GPU-b": nodes("nvidia1"), "all": nodes("nvidia0", "nvidia1")}
BY_NUMBER = {"0": nodes("nvidia0"), "1": nodes("nvidia1"), "all": nodes("nvidia0", "nvidia1")}
EVERY = {"all": nodes("nvidia0", "nvidia1", *CONTROL, CAP, "nvidia-caps-imex-channels/channel0", "dri/card1")}
BROKEN = Malformed("/etc/cdi/nvidia.yaml", "it is torn")


def ask(
    *specs: ForeignSpec, cards: Sequence[Card] = (A, B), broken: Sequence[Malformed] = (), **more: Any
) -> GpuDevices:
    return find_gpu_devices(FoundSpecs(specs, tuple(broken)), Question(cards, **more))


def paths(devices: GpuDevices, *uuids: str) -> list[str]:
    return sorted(node["path"].removeprefix("/dev/") for node in devices.edits_of(uuids).nodes)


# ---------------------------------------------------------------------------------------------- which source
@pytest.mark.parametrize(
    ("specs", "source"),
    [
        pytest.param([spec(NVIDIA, BY_UUID)], DevicesFrom.NVIDIA_CDI, id="the toolkit's, by UUID"),
        pytest.param([spec(NVIDIA, BY_NUMBER)], DevicesFrom.NVIDIA_CDI, id="the toolkit's, by number"),
        pytest.param([spec(PLUGIN, BY_UUID)], DevicesFrom.NVIDIA_CDI, id="NVIDIA's plugin's"),
        pytest.param([spec(MANAGEMENT, EVERY)], DevicesFrom.MANAGEMENT_CDI, id="the operator's"),
        pytest.param([spec(MANAGEMENT, EVERY), spec(NVIDIA, BY_UUID)], DevicesFrom.NVIDIA_CDI, id="the best of two"),
        pytest.param([], DevicesFrom.ENVIRONMENT, id="none"),
    ],
)
def test_the_source_is_what_is_found_on_the_node(specs: list[ForeignSpec], source: DevicesFrom) -> None:
    devices = ask(*specs)

    assert (devices.source, devices.refused, devices.is_trouble) == (source, {}, False)
    if source is not DevicesFrom.ENVIRONMENT:
        assert paths(devices, "GPU-b") == sorted(["nvidia1", *CONTROL])
        assert devices.edits_of(["GPU-b"]).env == ("NVIDIA_VISIBLE_DEVICES=void", "LIB=1")


def test_without_a_spec_the_environment_names_the_cards() -> None:
    edits = ask().edits_of(["GPU-a", "GPU-b"])

    assert (edits.env, edits.nodes) == (("NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b",), ())


@pytest.mark.parametrize(
    ("question", "source"),
    [
        pytest.param({"takes_cdi": False}, DevicesFrom.ENVIRONMENT, id="a runtime without CDI"),
        pytest.param({"takes_cdi": False, "why_unread": "Runc."}, DevicesFrom.REFUSED, id="and nobody reads it"),
        pytest.param({"why_unread": "Runc."}, DevicesFrom.NVIDIA_CDI, id="nobody needs to read the variable"),
        pytest.param({"wanted": DevicesFrom.ENVIRONMENT}, DevicesFrom.ENVIRONMENT, id="the operator wants that"),
        pytest.param(
            {"wanted": DevicesFrom.ENVIRONMENT, "why_unread": "Runc."},
            DevicesFrom.ENVIRONMENT,
            id="the operator wants that, and knows better",
        ),
        pytest.param({"wanted": DevicesFrom.MANAGEMENT_CDI}, DevicesFrom.REFUSED, id="the operator wants another spec"),
        pytest.param({"wanted": DevicesFrom.NVIDIA_CDI}, DevicesFrom.NVIDIA_CDI, id="the operator wants this one"),
        pytest.param({"used_before": DevicesFrom.MANAGEMENT_CDI}, DevicesFrom.NVIDIA_CDI, id="another one was used"),
    ],
)
def test_what_the_node_and_its_operator_say(question: dict[str, Any], source: DevicesFrom) -> None:
    assert ask(spec(NVIDIA, BY_UUID), **question).source is source


# ---------------------------------------------------------------------------------------------- refused nodes
@pytest.mark.parametrize(
    ("specs", "more", "says"),
    [
        pytest.param([], {"used_before": DevicesFrom.NVIDIA_CDI}, "is gone", id="gone after it was used"),
        pytest.param([], {"broken": [BROKEN]}, "it is torn", id="malformed, and nothing else"),
        pytest.param([], {"why_unread": "It is runc."}, "It is runc. Pods wait.", id="nobody reads the environment"),
        pytest.param(
            [spec(MANAGEMENT, EVERY)],
            {"broken": [BROKEN], "used_before": DevicesFrom.NVIDIA_CDI},
            "it is torn",
            id="malformed, and another source is there",
        ),
        pytest.param([spec(NVIDIA, {"all": nodes("nvidia0")})], {}, "has no device", id="no card by itself"),
        pytest.param(
            [spec(NVIDIA, {"GPU-a": nodes("nvidia3"), "GPU-b": nodes("nvidia0")})],
            {},
            "NVML says /dev/nvidia0",
            id="old: the cards have other numbers now",
        ),
        pytest.param([spec(NVIDIA, {"GPU-a": {"env": ["A=b"]}})], {}, "no /dev/nvidia<n>", id="no node at all"),
        pytest.param(
            [spec(NVIDIA, {"GPU-a": nodes("nvidia0", "nvidia1")})], {}, "/dev/nvidia0 and /dev/nvidia1", id="two cards"
        ),
        pytest.param([spec(NVIDIA, {"0": nodes("nvidia7")})], {}, "has no device", id="a number that counts otherwise"),
        pytest.param(
            [spec(NVIDIA, {"0:0": nodes("nvidia0", CAP), "MIG-1": nodes("nvidia0", CAP)})],
            {},
            "only MIG instances",
            id="MIG instances",
        ),
        pytest.param([spec(NVIDIA, {"GPU-a": nodes("nvidia0", CAP)})], {}, "MIG", id="a MIG instance with its UUID"),
        pytest.param([spec(MANAGEMENT, {"0": nodes("nvidia0")})], {}, "'all'", id="a management spec without all"),
        pytest.param([spec(MANAGEMENT, {"all": nodes("nvidia7")})], {}, "no /dev/nvidia0", id="the card is not in it"),
    ],
)
def test_a_node_whose_specs_do_not_fit_is_refused_with_a_sentence(
    specs: list[ForeignSpec], more: dict[str, Any], says: str
) -> None:
    devices = ask(*specs, **more)

    assert (devices.source, devices.is_trouble) == (DevicesFrom.REFUSED, True)
    with pytest.raises(NoDevices) as caught:
        devices.edits_of(["GPU-a"])
    assert says in str(caught.value)
    assert str(caught.value) in devices.sentence()


def test_a_malformed_file_stops_nothing_while_the_source_in_use_is_whole() -> None:
    devices = ask(spec(NVIDIA, BY_UUID), broken=[BROKEN], used_before=DevicesFrom.NVIDIA_CDI)

    assert devices.source is DevicesFrom.NVIDIA_CDI
    assert "it is torn" in devices.sentence()


def test_a_card_without_a_device_waits_alone() -> None:
    devices = ask(spec(NVIDIA, {"GPU-a": nodes("nvidia0")}))

    assert paths(devices, "GPU-a") == sorted(["nvidia0", *CONTROL])
    assert list(devices.refused) == ["GPU-b"]
    with pytest.raises(NoDevices, match="has no device of GPU GPU-b"):
        devices.edits_of(["GPU-a", "GPU-b"])
    with pytest.raises(NoDevices, match="in none of this node's CDI specs"):
        devices.edits_of(["GPU-new"])


def test_the_management_spec_needs_the_cards_number() -> None:
    devices = ask(spec(MANAGEMENT, EVERY), cards=[Card("GPU-a", None)])

    assert devices.source is DevicesFrom.REFUSED
    assert "NVML does not say" in devices.sentence()


def test_a_uuid_is_enough_where_nvml_does_not_say_the_number() -> None:
    assert paths(ask(spec(NVIDIA, BY_UUID), cards=[Card("GPU-b", None)]), "GPU-b") == sorted(["nvidia1", *CONTROL])


def test_a_node_without_gpus_yet_is_not_refused() -> None:
    assert ask(spec(NVIDIA, BY_UUID), cards=[]).source is DevicesFrom.NVIDIA_CDI


# ---------------------------------------------------------------------------------------------- what is copied
def test_several_cards_share_the_common_edits_once() -> None:
    hook = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "ldcache"]}
    mount = {"hostPath": "/lib/libcuda.so.1", "containerPath": "/lib/libcuda.so.1", "options": ["ro"]}
    common = {**nodes(*CONTROL), "env": ["LIB=1"], "hooks": [hook], "mounts": [mount], "additionalGids": [44]}
    edits = ask(spec(NVIDIA, BY_UUID, common=common)).edits_of(["GPU-a", "GPU-b"])

    assert sorted(node["path"] for node in edits.nodes) == sorted(
        f"/dev/{name}" for name in ("nvidia0", "nvidia1", *CONTROL)
    )
    assert (edits.env, edits.hooks) == (("LIB=1", "NVIDIA_VISIBLE_DEVICES=void"), (hook,))
    assert (edits.mounts, edits.gids) == ((mount,), (44,))


def test_of_the_management_spec_only_the_card_and_the_control_nodes_are_kept() -> None:
    devices = ask(spec(MANAGEMENT, EVERY, common={"env": ["A=b"]}))

    assert paths(devices, "GPU-a") == sorted(["nvidia0", *CONTROL])
    assert paths(devices, "GPU-a", "GPU-b") == sorted(["nvidia0", "nvidia1", *CONTROL])


def test_the_numbers_of_a_node_count_for_more_than_its_name() -> None:
    odd = {"deviceNodes": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 1}]}
    devices = ask(spec(NVIDIA, {"GPU-a": odd}), cards=[A])

    assert "NVML says /dev/nvidia0" in devices.sentence()
    managed = {"deviceNodes": [{"path": "/dev/nvidiactl", "type": "c", "major": 195, "minor": 255}]}
    assert ask(
        spec(MANAGEMENT, {"all": {"deviceNodes": [*EVERY["all"]["deviceNodes"], *managed["deviceNodes"]]}})
    ).cards


def test_the_host_side_of_a_node_decides() -> None:
    root = "/run/nvidia/driver/dev"
    device = {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": f"{root}/nvidia0"}]}

    assert (
        ask(spec(NVIDIA, {"GPU-a": device}), cards=[A]).edits_of(["GPU-a"]).nodes[-1]["hostPath"] == f"{root}/nvidia0"
    )


def test_missing_control_nodes_are_said() -> None:
    devices = ask(spec(NVIDIA, BY_UUID, common=nodes("nvidiactl")))

    assert devices.source is DevicesFrom.NVIDIA_CDI
    assert "brings no /dev/nvidia-uvm, so CUDA may not start" in devices.sentence()


def test_the_spec_in_the_later_folder_wins() -> None:
    old = spec(NVIDIA, BY_UUID, common={"env": ["LIB=old"]})
    new = spec(NVIDIA, BY_UUID, common={"env": ["LIB=new"]}, file="/var/run/cdi/nvidia.yaml", priority=1)

    assert ask(old, new).edits_of(["GPU-a"]).env[0] == "LIB=new"


def test_two_specs_in_one_folder_that_differ_are_no_answer() -> None:
    first = spec(NVIDIA, BY_UUID, common={"env": ["LIB=1"]}, file="/etc/cdi/a.yaml")
    devices = ask(first, spec(NVIDIA, BY_UUID, common={"env": ["LIB=2"]}, file="/etc/cdi/b.yaml"))

    assert devices.source is DevicesFrom.REFUSED
    assert "Two CDI specs name GPU GPU-a" in devices.sentence()


def test_the_version_is_the_newest_that_is_needed() -> None:
    devices = ask(spec(NVIDIA, {"GPU-a": nodes("nvidia0")}, version="0.7.0"), cards=[A])

    assert devices.version_of(["GPU-a"]) == "0.7.0"
    assert ask().version_of(["GPU-a"]) == "0.3.0"

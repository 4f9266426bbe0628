"""How another maker's CDI spec is read: whole, or refused with the reason."""

from typing import Any

import pytest

from deviceplugin.core.device_edits import (
    VERSIONS,
    DeviceEdits,
    card_of,
    cards_in,
    has_mig_nodes,
    join_edits,
    newest,
    read_spec,
    write_edits,
)
from deviceplugin.errors import BadSpec

GOOD: dict[str, Any] = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}


def with_edits(edits: object) -> dict[str, Any]:
    return {**GOOD, "containerEdits": edits}


def test_a_spec_is_read_and_written_as_it_stands() -> None:
    edits = {
        "env": ["A=b=c"],
        "deviceNodes": [{"path": "/dev/nvidia0", "permissions": "rw"}],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"]}],
        "hooks": [{"hookName": "createContainer", "path": "/bin/x", "args": ["x"]}],
        "additionalGids": [7],
    }
    spec = read_spec("f", {**with_edits(edits), "devices": [{"name": "0", "containerEdits": edits}]}, priority=1)

    assert write_edits(spec.common) == write_edits(spec.devices["0"]) == edits
    assert (spec.file, spec.kind, spec.version, spec.priority) == ("f", "nvidia.com/gpu", "0.5.0", 1)
    assert write_edits(DeviceEdits()) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_known_version_is_read(version: str) -> None:
    assert read_spec("f", {**GOOD, "cdiVersion": version, "annotations": {"a": "b"}}).version == version


@pytest.mark.parametrize(
    ("document", "says"),
    [
        pytest.param(None, "the file is not a mapping", id="an empty file"),
        pytest.param([], "the file is not a mapping", id="a list"),
        pytest.param({**GOOD, "cdiVersion": "9.9.9"}, "cdiVersion is '9.9.9'", id="a version of tomorrow"),
        pytest.param({**GOOD, "cdiVersion": 0.5}, "cdiVersion is 0.5", id="a version that is a number"),
        pytest.param({**GOOD, "kind": "gpu"}, "its kind is 'gpu'", id="a kind without a vendor"),
        pytest.param({**GOOD, "kind": None}, "its kind is None", id="no kind: cut off in the middle"),
        pytest.param({**GOOD, "devices": None}, "no list of devices", id="no devices"),
        pytest.param({**GOOD, "devices": ["0"]}, "a device is not a mapping", id="a device that is a text"),
        pytest.param({**GOOD, "devices": [{"name": 0}]}, "named 0", id="a name that is a number"),
        pytest.param({**GOOD, "devices": [{"name": ""}]}, "named ''", id="an empty name"),
        pytest.param({**GOOD, "devices": [{"name": "0"}] * 2}, "'0' twice", id="a name that stands twice"),
        pytest.param(with_edits([]), "containerEdits of the spec is not a mapping", id="edits that are a list"),
        pytest.param(with_edits({"netDevices": []}), "'netDevices'", id="edits that we do not know"),
        pytest.param(with_edits({"env": "A=b"}), "env of the spec is not a list", id="one text for a list"),
        pytest.param(with_edits({"env": ["=b"]}), "env of the spec has an entry", id="a variable without a name"),
        pytest.param(with_edits({"env": ["A"]}), "env of the spec has an entry", id="a variable without a value"),
        pytest.param(with_edits({"deviceNodes": [{}]}), "deviceNodes of the spec", id="a node without a path"),
        pytest.param(with_edits({"deviceNodes": [{"path": 1}]}), "deviceNodes of", id="a path that is a number"),
        pytest.param(with_edits({"mounts": [{"hostPath": "/a"}]}), "mounts of the spec", id="half a mount"),
        pytest.param(with_edits({"hooks": [{"path": "/a"}]}), "hooks of the spec", id="a hook without its moment"),
        pytest.param(with_edits({"additionalGids": [True]}), "additionalGids", id="a group that is no number"),
    ],
)
def test_a_spec_that_is_not_whole_is_refused_with_the_reason(document: object, says: str) -> None:
    with pytest.raises(BadSpec) as caught:
        read_spec("f", document)

    assert says in str(caught.value)


def test_edits_are_joined_and_the_last_of_equal_ones_wins() -> None:
    first = DeviceEdits(
        env=("A=1", "B=1"), nodes=({"path": "/a"},), mounts=({"containerPath": "/m", "hostPath": "/1"},)
    )
    second = DeviceEdits(
        env=("A=2",), nodes=({"path": "/a"}, {"path": "/b"}), mounts=({"containerPath": "/m", "hostPath": "/2"},)
    )
    hooks = DeviceEdits(hooks=({"path": "/h", "args": ["1"]}, {"path": "/h", "args": ["2"]}), gids=(1, 1))

    assert join_edits([first, second, hooks, hooks]) == DeviceEdits(
        env=("A=2", "B=1"),
        nodes=({"path": "/a"}, {"path": "/b"}),
        mounts=({"containerPath": "/m", "hostPath": "/2"},),
        hooks=({"path": "/h", "args": ["1"]}, {"path": "/h", "args": ["2"]}),
        gids=(1,),
    )


@pytest.mark.parametrize(
    ("node", "card"),
    [
        pytest.param({"path": "/dev/nvidia12"}, 12, id="by its name"),
        pytest.param({"path": "/dev/nvidia0", "hostPath": "/driver/dev/nvidia3"}, 3, id="by its name on the node"),
        pytest.param({"path": "/dev/nvidia0", "major": 195, "minor": 2}, 2, id="by its number"),
        pytest.param({"path": "/dev/x", "major": 195, "minor": 255}, None, id="the control node's number"),
        pytest.param({"path": "/dev/x", "major": 195, "minor": 254}, None, id="the modeset node's number"),
        pytest.param({"path": "/dev/nvidia5", "major": 195, "minor": True}, 5, id="a number that is none"),
        pytest.param({"path": "/dev/nvidiactl"}, None, id="a control node"),
        pytest.param({"path": "/dev/nvidia-caps/nvidia-cap1"}, None, id="a MIG node"),
        pytest.param({"path": "/dev/dri/card1"}, None, id="a graphics node"),
    ],
)
def test_the_card_behind_a_node(node: dict[str, Any], card: int | None) -> None:
    assert card_of(node) == card
    assert cards_in(DeviceEdits(nodes=(node,))) == (frozenset() if card is None else {card})


def test_nodes_of_mig_are_known() -> None:
    assert has_mig_nodes(DeviceEdits(nodes=({"path": "/dev/nvidia-caps/nvidia-cap1"},)))
    assert not has_mig_nodes(DeviceEdits(nodes=({"path": "/dev/nvidia0"},)))


def test_versions_are_compared_as_numbers() -> None:
    assert newest(["0.8.0", "1.1.0", "0.5.0"]) == "1.1.0"

"""What `doctor` says of NVIDIA's CDI specs, by the rule that the plugin follows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.words.node import DevicesFrom
from deviceplugin.core.doctor.facts import CdiFacts, ClusterFacts
from deviceplugin.doctor.cluster import NodeAnswer
from deviceplugin.doctor.devices import look_at_cdi
from deviceplugin.node import gpu_devices
from deviceplugin.settings import Inject, Settings
from tests.fakes.gpus import make_gpu

GPU = make_gpu(0, minor=0)
UNKNOWN = NodeAnswer(ClusterFacts())


@pytest.fixture
def node(settings: Settings) -> Settings:
    """Return the settings of a node whose folders of specs are there."""
    static = settings.layout.cdi.with_name("static-cdi")
    for folder in (static, settings.layout.cdi, settings.layout.root):
        folder.mkdir()
    return replace(settings, static_cdi_folder=static, inject=Inject.AUTO)


def spec(minor: int = 0) -> str:
    node: dict[str, Any] = {"path": f"/dev/nvidia{minor}", "major": 195, "minor": minor}
    devices = [{"name": GPU.uuid, "containerEdits": {"deviceNodes": [node]}}]
    common = {"deviceNodes": [{"path": f"/dev/{name}"} for name in ("nvidiactl", "nvidia-uvm")]}
    found = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": common}
    return json.dumps(found)


def look(node: Settings, answer: NodeAnswer = UNKNOWN, root: Path | None = None) -> CdiFacts:
    return look_at_cdi(node, [GPU], answer, root)


def test_a_spec_of_nvidias_is_the_source(node: Settings) -> None:
    file = node.static_cdi_folder / "nvidia.json"
    file.write_text(spec())
    found = look(node)

    assert (found.source, found.is_trouble) == (DevicesFrom.NVIDIA_CDI, False)
    assert found.specs == {str(file): ("nvidia.com/gpu", (GPU.uuid,))}
    assert str(file) in found.told


@pytest.mark.parametrize("text", ["{", spec(minor=3)], ids=["malformed", "of another card"])
def test_a_spec_that_cannot_be_used_is_trouble(node: Settings, text: str) -> None:
    (node.layout.cdi / "nvidia.json").write_text(text)
    found = look(node)

    assert found.is_trouble
    assert bool(found.malformed) is (text == "{")


def test_without_specs_the_environment_is_the_source(node: Settings) -> None:
    assert look(node).source == DevicesFrom.ENVIRONMENT


def test_without_specs_and_with_runc_as_the_default_pods_wait(node: Settings, tmp_path: Path) -> None:
    config = tmp_path / "root" / "etc" / "containerd" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("version = 3\n")
    found = look(node, root=tmp_path / "root")

    assert (found.source, found.is_trouble) == (DevicesFrom.REFUSED, True)
    assert "The default runtime is runc, so containers get no GPU. Pods wait." in found.told


def test_specs_that_are_gone_are_trouble(node: Settings) -> None:
    (node.layout.root / gpu_devices.STATE_FILE).write_text("nvidia-cdi\n")

    assert look(node).is_trouble


@pytest.mark.parametrize(
    ("inject", "answer", "noted", "source"),
    [
        (Inject.AUTO, NodeAnswer(ClusterFacts(), "containerd://2.1", takes_cdi=True), "mounts", "nvidia-cdi"),
        (Inject.AUTO, NodeAnswer(ClusterFacts(), "containerd://1.6"), "cdi", "environment"),
        (Inject.AUTO, UNKNOWN, "mounts", "environment"),
        (Inject.AUTO, UNKNOWN, "", "nvidia-cdi"),
        (Inject.MOUNTS, UNKNOWN, "cdi", "environment"),
        (Inject.CDI, NodeAnswer(ClusterFacts(), "containerd://1.7"), "", "nvidia-cdi"),
    ],
)
def test_specs_count_only_where_the_runtime_takes_them(
    node: Settings, inject: Inject, answer: NodeAnswer, noted: str, source: str
) -> None:
    (node.layout.cdi / "nvidia.json").write_text(spec())
    (node.layout.root / "injection").write_text(noted)

    assert look(replace(node, inject=inject), answer).source == source

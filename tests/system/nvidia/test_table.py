"""The table of kinds, and what is judged wrong in a container: without a node."""

import dataclasses
from typing import Any

import pytest

from testbed.cluster.installed import MANIFESTS
from testbed.nvidia import driver
from testbed.nvidia.kinds import BY_NAME, KINDS, NodeKind, Outcome, Spec
from tests.system.nvidia import sights
from tests.system.nvidia.sights import ALLOWED, Sight

CARDS = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")
RIGHT = Sight(
    nodes={"nvidia1": ALLOWED, "nvidiactl": ALLOWED, "nvidia-uvm": ALLOWED},
    made=("EPERM", ALLOWED, "EPERM", "EPERM"),
    libraries=(f"libcuda.so.{driver.VERSION}",),
    variable="void",
    uuids=("GPU-b",),
)


def test_every_name_outcome_and_spec_is_used() -> None:
    assert len(BY_NAME) == len(KINDS)
    assert {kind.outcome for kind in KINDS} == set(Outcome)
    assert {spec for kind in KINDS for spec in kind.specs} == set(Spec)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_component_of_a_kind_is_one_of_ours(kind: NodeKind) -> None:
    assert all((MANIFESTS / "components" / name / "kustomization.yaml").exists() for name in kind.components)


def test_a_container_with_its_own_card_is_right() -> None:
    assert sights.complaints(RIGHT, CARDS) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"nodes": {**RIGHT.nodes, "nvidia2": ALLOWED}}, "has the nodes", id="a neighbour's node"),
        pytest.param({"nodes": {"nvidiactl": ALLOWED, "nvidia-uvm": ALLOWED}}, "has the nodes", id="no card"),
        pytest.param({"nodes": {"nvidia1": ALLOWED, "nvidiactl": ALLOWED}}, "lacks", id="no nvidia-uvm"),
        pytest.param({"nodes": {**RIGHT.nodes, "nvidia1": "EPERM"}}, "may not open", id="a node that is forbidden"),
        pytest.param({"made": (ALLOWED,) * 4}, "reaches cards [0, 2, 3]", id="a device cgroup that is open"),
        pytest.param({"libraries": ()}, "has no libcuda", id="no library of the node"),
        pytest.param({"uuids": ("GPU-c",)}, "has the nodes", id="the card of another allocation"),
    ],
)
def test_what_is_wrong_in_a_container_is_said(change: dict[str, Any], complaint: str) -> None:
    assert complaint in " ".join(sights.complaints(dataclasses.replace(RIGHT, **change), CARDS))

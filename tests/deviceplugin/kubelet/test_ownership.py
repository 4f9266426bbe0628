"""Ownership: other plugins' GPUs stay theirs while those plugins are away; a silent kubelet is noticed."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from contract.words import names
from deviceplugin.core.foreign_gpus import read_foreign, render_foreign
from deviceplugin.core.retention import Assignment, Listed, Ownership
from deviceplugin.kubelet.ownership import OwnershipReader
from deviceplugin.node.state_file import StateFile
from tests.fakes.gpus import FakeKubelet

A = {"GPU-a": "nvidia.com/gpu"}
BOTH = frozenset({"List", "GetAllocatableResources"})
CHECKPOINT = '{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {"nvidia.com/gpu": ["GPU-a"]}}}'


@dataclass(frozen=True)
class At:
    """A look at this second, and the kubelet's answers to it."""

    now: float
    given_out: Mapping[str, str]
    in_hands: Mapping[str, str]
    silent: frozenset[str] = frozenset()


_NO_GPUS: Mapping[str, str] = {}
GIVEN, HELD, NOTHING = (A, _NO_GPUS), (_NO_GPUS, A), (_NO_GPUS, _NO_GPUS)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([At(0, *GIVEN), At(10, *NOTHING)], A, id="its plugin is rolled out"),
        pytest.param([At(0, *GIVEN), At(10, *NOTHING), At(309, *NOTHING)], A, id="nearly five minutes"),
        pytest.param([At(0, *GIVEN), At(10, *NOTHING), At(311, *NOTHING)], {}, id="its plugin is gone for good"),
        pytest.param([At(0, *GIVEN), At(10, *HELD), At(9999, *HELD)], A, id="a pod has it though its plugin is away"),
        pytest.param(
            [At(0, *HELD), At(400, *NOTHING), At(600, *NOTHING)], A, id="the grace begins when the pod has ended"
        ),
        pytest.param(
            [At(0, *GIVEN), At(10, *NOTHING), At(200, *GIVEN), At(210, *NOTHING), At(400, *NOTHING)],
            A,
            id="it was seen in between",
        ),
        pytest.param(
            [At(0, *GIVEN), At(10, *NOTHING), At(200, *NOTHING, BOTH), At(400, *NOTHING)],
            A,
            id="the kubelet restarted: its first answers know of no plugin",
        ),
        pytest.param([At(0, *GIVEN), At(10, *NOTHING, BOTH), At(9999, *NOTHING, BOTH)], A, id="no kubelet: no news"),
        pytest.param(
            [At(0, *GIVEN), At(10, *NOTHING, frozenset({"List"})), At(400, *NOTHING, frozenset({"List"}))],
            A,
            id="who has what is not known",
        ),
        pytest.param([At(0, *HELD, frozenset({"GetAllocatableResources"}))], A, id="only the pods are told"),
        pytest.param([At(0, *GIVEN, frozenset({"List"}))], A, id="only what is given out is told"),
    ],
)
def test_which_plugin_owns_a_gpu(steps: list[At], expected: Mapping[str, str], tmp_path: Path) -> None:
    assert follow(steps, tmp_path / "none", looks_ahead=False) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([At(0, *NOTHING)], A, id="our plugin registers first after a boot"),
        pytest.param([At(0, *NOTHING, BOTH), At(10, *NOTHING)], A, id="before the kubelet answers"),
        pytest.param([At(0, *NOTHING), At(10, *NOTHING), At(311, *NOTHING)], {}, id="the other one never came"),
    ],
)
def test_the_checkpoint_names_foreign_gpus_before_the_other_plugin_has_registered(
    steps: list[At], expected: Mapping[str, str], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_text(CHECKPOINT)

    assert follow(steps, checkpoint, looks_ahead=True) == expected


@pytest.mark.parametrize("call", sorted(BOTH))
def test_a_kubelet_that_does_not_answer_is_logged_once_and_is_a_metric(
    call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet, now = FakeKubelet(), [0.0]
    ownership = make_reader(kubelet, tmp_path / "none", now, [])
    seen: list[bool] = []
    caplog.set_level(logging.INFO)
    for silent in (set(), {call}, {call}, set(), {call}):
        now[0], kubelet.silent = now[0] + 10.0, silent
        ownership.refresh()
        seen.append(ownership.answers[call])

    assert seen == [True, False, False, True, False]
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "WARNING"]
    assert all(call in each.getMessage() for each in caplog.records)
    assert ownership.answers[min(BOTH - {call})], "the other question is asked all the same"


def test_assignments_are_known_even_while_offered_gpus_are_not(tmp_path: Path) -> None:
    kubelet = FakeKubelet()
    kubelet.silent = {"GetAllocatableResources"}
    kubelet.listed = Listed((Assignment("ns", "pod", "main", ("GPU-a__0",)),))
    ownership = make_reader(kubelet, tmp_path / "none", [0.0], [])

    assert ownership.refresh() == Ownership(kubelet.listed.assignments, None)


@pytest.mark.parametrize(
    ("state_file", "expected"),
    [
        pytest.param("GPU-a nvidia.com/gpu\nGPU-b x/y\n", {"GPU-a": "nvidia.com/gpu", "GPU-b": "x/y"}, id="whole"),
        pytest.param("", {}, id="none"),
        pytest.param("GPU-a\n\nGPU-b \nGPU-c x/y z\n", {}, id="lines that are not whole"),
    ],
)
def test_a_state_file_is_read(state_file: str, expected: dict[str, str]) -> None:
    assert read_foreign(state_file) == expected
    assert not expected or render_foreign(expected) == state_file


def test_a_plugin_that_starts_while_another_is_away_knows_its_gpus_from_the_state_file(tmp_path: Path) -> None:
    """Cover a driver's upgrade, which restarts both plugins: no pod has the GPU, and the kubelet knows nothing."""
    follow([At(0, *GIVEN), At(10, *NOTHING)], tmp_path / "none", looks_ahead=False)
    assert follow([At(0, *NOTHING), At(5, *NOTHING), At(305, *NOTHING)], tmp_path / "none", looks_ahead=True) == A
    assert follow([At(0, *NOTHING), At(5, *NOTHING), At(306, *NOTHING)], tmp_path / "none", looks_ahead=True) == {}
    assert follow([At(0, *NOTHING)], tmp_path / "none", looks_ahead=True) == {}, "the note is brought up to date"


def make_reader(
    kubelet: FakeKubelet, checkpoint: Path, now: list[float], told: list[Mapping[str, str]]
) -> OwnershipReader:
    return OwnershipReader(
        kubelet=kubelet,
        checkpoint=checkpoint,
        resource=names.RESOURCE,
        state_file=StateFile(checkpoint.parent / "others"),
        tell_foreign=told.append,
        grace=300.0,
        clock=lambda: now[0],
    )


def follow(steps: list[At], checkpoint: Path, *, looks_ahead: bool) -> Mapping[str, str]:
    """Return the foreign GPUs that were reported last."""
    kubelet, now = FakeKubelet(), [0.0]
    told: list[Mapping[str, str]] = []
    ownership = make_reader(kubelet, checkpoint, now, told)
    for number, step in enumerate(steps):
        now[0], kubelet.silent = step.now, set(step.silent)
        kubelet.offered, kubelet.listed = step.given_out, Listed((), step.in_hands)
        if looks_ahead and number == 0:
            ownership.look_for_foreign()
        else:
            ownership.refresh()
    return told[-1]

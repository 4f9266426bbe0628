"""The shared file: a broken, foreign or differently configured file is refused with a sentence, never used."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.gpu_record import Record, RecordError
from tests.fakes.gpu_machine import BUILD, Machine


def write_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_short(path: Path) -> None:
    os.truncate(path, 100_000)


def flip_header_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        byte = file.read(1)[0]
        file.seek(200)
        file.write(bytes([byte ^ 1]))


def point_outside(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(112)  # where the header says that the control block is
        file.seek(int.from_bytes(file.read(8), "little"))
        file.write((77).to_bytes(4, "little"))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [write_garbage, make_empty, cut_short, flip_header_bit, point_outside, make_folder])
def test_a_damaged_file_is_refused_with_a_sentence(damage: Callable[[Path], None], machine: Machine) -> None:
    assert machine.tool("devices").returncode == 0
    damage(machine.file)

    refused = machine.start_burn("--count", "1")
    _, problem = refused.communicate(timeout=20)

    assert refused.returncode != 0
    assert str(machine.file) in problem
    assert "SIMGPU_FILE" in problem, "the sentence says what to do"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SIMGPU_DEVICES", "1xT4-8GB"),
        ("SIMGPU_SLICE", "3ms"),
        ("SIMGPU_SPEED", "2"),
    ],
)
def test_other_settings_than_the_file_s_are_refused(variable: str, value: str, machine: Machine) -> None:
    machine.tool("devices")
    environment = {**machine.environment(), variable: value}

    refused = subprocess.run([BUILD / "burn"], env=environment, capture_output=True, text=True)

    assert refused.returncode != 0
    assert "was made" in refused.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SIMGPU_DEVICES", "2xA999-40GB"),
        ("SIMGPU_DEVICES", "two"),
        ("SIMGPU_DEVICES", "17xT4-16GB"),
        ("SIMGPU_SLICE", "2 fortnights"),
        ("SIMGPU_SPEED", "-1"),
        ("SIMGPU_OVERLAP", "0"),
    ],
)
def test_unknown_values_are_refused_never_guessed(variable: str, value: str, machine: Machine) -> None:
    refused = subprocess.run(
        [BUILD / "burn"], env={**machine.environment(), variable: value}, capture_output=True, text=True
    )

    assert refused.returncode != 0
    assert refused.stderr.startswith("simgpu: ")
    assert not machine.file.exists()


def test_the_file_s_settings_hold_for_processes_that_set_none(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine("1xT4-16GB,2xA100-40GB", speed="10")
    assert machine.tool("devices").stdout.count("A100") == 2
    plain = {
        key: value for key, value in machine.environment().items() if key not in ("SIMGPU_DEVICES", "SIMGPU_SPEED")
    }
    began = time.monotonic()

    done = subprocess.run([BUILD / "burn", "--devices", "2", "--count", "1", "--kernel-ms", "1000"], env=plain)

    assert done.returncode == 0
    assert time.monotonic() - began < 0.9


def test_many_processes_that_start_at_once_share_one_file(machine: Machine) -> None:
    programs = [machine.start_burn("--count", "5", "--kernel-ms", "1") for _ in range(12)]

    assert [program.wait() for program in programs] == [0] * 12
    assert len(machine.record().owners()) == 12
    assert list(machine.folder.iterdir()) == [machine.file], "nothing half-made is left"


def test_uuids_are_the_same_on_every_start_and_differ_by_seed(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    first, again = (Machine(folder, "2xT4-16GB").tool("devices").stdout for folder in folders[:2])
    other = Machine(folders[2], "2xT4-16GB", {"uuid_seed": "node-2"}).tool("devices").stdout

    assert first == again
    assert not set(first.split()) & {word for word in other.split() if word.startswith("GPU-")}


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "1,0,7,2"}, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, 3),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, 0),
        ({"NVIDIA_VISIBLE_DEVICES": "0,2", "CUDA_VISIBLE_DEVICES": "1"}, 1),
    ],
)
def test_visible_devices(variables: dict[str, str], count: int, make_machine: Callable[..., Machine]) -> None:
    machine = make_machine("3xT4-16GB")
    devices = ",".join(map(str, range(max(count, 1))))

    done = subprocess.run(
        [BUILD / "burn", "--count", "1", "--kernel-ms", "1", "--devices", devices],
        env={**machine.environment(), **variables}, capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode == 0) == (count > 0)
    assert done.stdout.count("error=0") == count


@pytest.mark.parametrize(
    ("nodes", "seen"),
    [
        pytest.param(["nvidiactl", "nvidia0", "nvidia2"], 2, id="the cards whose nodes can be opened"),
        pytest.param(["nvidia0", "nvidia2"], 0, id="none without the control node"),
        pytest.param(["nvidiactl"], 0, id="none without a card's node"),
    ],
)
def test_device_nodes_decide_instead_of_the_runtimes_variable(
    nodes: list[str], seen: int, tmp_path: Path, make_machine: Callable[..., Machine]
) -> None:
    machine = make_machine("3xT4-16GB")
    for node in nodes:
        (tmp_path / node).touch()
    variables = {"SIMGPU_NODES": str(tmp_path), "NVIDIA_VISIBLE_DEVICES": "1"}

    def burn(devices: int) -> bool:
        names = ",".join(map(str, range(devices)))
        command = [str(BUILD / "burn"), "--count", "1", "--kernel-ms", "1", "--quiet", "--devices", names]
        return subprocess.run(command, env={**machine.environment(), **variables}, check=False).returncode == 0

    assert [burn(devices) for devices in (1, 2, 3)] == [devices <= seen for devices in (1, 2, 3)]


def test_the_record_says_what_it_cannot_read(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(os.urandom(9000))

    for path in (tmp_path / "absent", garbage):
        with pytest.raises(RecordError, match="SIMGPU_FILE"):
            Record(path)

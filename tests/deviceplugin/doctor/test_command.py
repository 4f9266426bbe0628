"""`doctor` as a command, on the software GPU's NVML and a node of temp folders."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deviceplugin.settings import Settings
from tests.deviceplugin.software_gpus import ROOT, SIMGPU, environment

pytestmark = pytest.mark.skipif(
    not (SIMGPU / "libnvidia-ml.so.1").exists(), reason="build/simgpu is not built: make native"
)


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deviceplugin", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, timeout=60)


def folders_of(settings: Settings) -> list[str]:
    layout = settings.layout
    return [
        *(f"--node-root={layout.root}", f"--cdi-folder={layout.cdi}", f"--kubelet-folder={settings.kubelet_folder}"),
        *(f"--pod-resources-socket={settings.pod_resources_socket}", f"--control-socket={settings.control_socket}"),
        f"--hook-file={settings.hook_file}",
    ]


def test_it_says_a_line_for_each_thing_and_ends_with_1(settings: Settings, short_path: Path) -> None:
    ended = run("doctor", *folders_of(settings), **environment(short_path))
    lines = ended.stdout.splitlines()

    assert ended.returncode == 1, ended.stderr
    assert ended.stderr == ""
    assert any(line.startswith("OK       nvml            NVML is ") for line in lines)
    assert sum(line.startswith("OK       gpu ") for line in lines) == 3
    assert any(line.startswith("MISSING  kubelet ") and "Fix: " in line for line in lines)
    assert lines[-1].startswith("Something must be done: ")


def test_as_json_it_is_a_list_of_the_same_findings(settings: Settings, short_path: Path) -> None:
    subprocess.run([SIMGPU / "simgpu", "mig", "1", "on"], env=environment(short_path), check=True, capture_output=True)
    ended = run("doctor", "--json", *folders_of(settings), **environment(short_path))
    found = json.loads(ended.stdout)

    assert [each["verdict"] for each in found if each["check"] == "gpu"] == ["OK", "WRONG", "OK"]
    assert {tuple(each) for each in found} == {("check", "verdict", "text", "fix")}


def test_without_a_driver_it_says_where_it_looked(settings: Settings) -> None:
    ended = run("doctor", *folders_of(settings), LD_LIBRARY_PATH="")

    assert ended.returncode == 1
    assert "MISSING  nvml            NVML does not answer. Looked at: " in ended.stdout


@pytest.mark.parametrize(
    "words", [("--slots=0",), ("--no-such-flag",), ("--settings=/nowhere",), ("--driver-root=relative",)]
)
def test_bad_use_ends_with_2(words: tuple[str, ...]) -> None:
    ended = run("doctor", *words)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr

"""NVML through pynvml, on the software GPU's library."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deviceplugin.software_gpus import ROOT, SIMGPU, environment

pytestmark = pytest.mark.skipif(
    not (SIMGPU / "libnvidia-ml.so.1").exists(), reason="build/simgpu is not built: make native"
)


class Child:
    """The process of `cards_child`, and the tool that makes faults."""

    def __init__(self, folder: Path) -> None:
        self._environment = environment(folder)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.deviceplugin.gpus.cards_child"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *words: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def fault(self, *words: str) -> None:
        subprocess.run([SIMGPU / "simgpu", *words], env=self._environment, check=True, capture_output=True)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(10) == 0


@pytest.fixture
def child(short_path: Path) -> Iterator[Child]:
    child = Child(short_path)
    yield child
    child.end()


def test_gpus_are_described(child: Child) -> None:
    first, _, third = child.ask("rescan")

    assert first["uuid"].startswith("GPU-")
    assert (first["model"], third["model"]) == ("NVIDIA A100-SXM4-40GB", "Tesla T4")
    assert (first["memory_bytes"], first["compute"], third["compute"]) == (40 << 30, "8.0", "7.5")
    assert first["pci"]
    assert not first["mig"]
    assert child.ask("check", first["uuid"]) is None


def test_a_gpu_in_mig_mode_says_so(child: Child) -> None:
    child.ask("rescan")
    child.fault("mig", "1", "on")

    assert [gpu["mig"] for gpu in child.ask("rescan")] == [False, True, False]


def test_an_xid_is_heard_with_its_gpu(child: Child) -> None:
    uuids = [gpu["uuid"] for gpu in child.ask("rescan")]
    child.fault("xid", "2", "48")

    assert child.ask("xid", "5") == [uuids[2], 48]
    assert child.ask("xid", "0.05") is None


def test_a_lost_gpu_does_not_answer_until_it_is_back(child: Child) -> None:
    uuid = child.ask("rescan")[0]["uuid"]
    child.fault("lost", "0")
    assert child.ask("check", uuid).startswith("GpuGone: ")
    child.ask("rescan")
    assert child.ask("check", uuid).startswith("GpuGone: ")
    child.fault("recovered", "0")
    child.ask("rescan")

    assert child.ask("check", uuid) is None


def test_a_gpu_that_was_never_there_is_gone(child: Child) -> None:
    child.ask("rescan")

    assert child.ask("check", "GPU-none").startswith("GpuGone: ")


def test_without_a_driver_the_sentence_says_what_is_missing() -> None:
    code = "from deviceplugin.gpus.cards import Nvml; Nvml().rescan()"
    empty = {"PATH": "/usr/bin:/bin"}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=empty, capture_output=True, text=True)

    assert "NvmlUnavailable: NVML does not answer" in ended.stderr

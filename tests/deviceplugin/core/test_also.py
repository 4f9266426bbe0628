"""The folders and variables that a driver needs reach every container, by CDI and by mounts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from contract.allocation import Allocation
from contract.words.node import DevicesFrom
from deviceplugin.core import cdi
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.errors import BadSetting
from deviceplugin.layout import Layout
from deviceplugin.settings import read_also_env, read_also_mount

LAYOUT = Layout(also_mounts=((Path("/run/simgpu"), "/run/simgpu"),), also_env=(("SIMGPU_FILE", "/run/simgpu/gpus"),))


def test_the_folder_is_writable_and_ours_are_not() -> None:
    allocation = Allocation("k" * 16, ("GPU-1",), ("GPU-1__0",), 0.0)
    edits = cdi.build_spec(allocation, LAYOUT, GpuDevices(DevicesFrom.ENVIRONMENT, ""))["containerEdits"]
    modes = {mount["containerPath"]: mount["options"][0] for mount in edits["mounts"]}

    assert modes.pop("/run/simgpu") == "rw"
    assert set(modes.values()) == {"ro"}
    assert "SIMGPU_FILE=/run/simgpu/gpus" in edits["env"]


@pytest.mark.parametrize(
    ("read", "entry"),
    [
        pytest.param(read_also_mount, "run:/run", id="a node's path that is not absolute"),
        pytest.param(read_also_mount, "/run", id="no container's path"),
        pytest.param(read_also_env, "SIMGPU_FILE", id="no value"),
        pytest.param(read_also_env, "LD_PRELOAD=/x", id="the pod's own preload would be wiped"),
        pytest.param(read_also_env, "NVIDIA_VISIBLE_DEVICES=all", id="the allocation's GPUs would be wiped"),
        pytest.param(read_also_env, "NVSHARE_MODE=gang", id="the webhook's word would be wiped"),
    ],
)
def test_a_malformed_entry_is_refused(read: Callable[[str], object], entry: str) -> None:
    with pytest.raises(BadSetting):
        read(entry)

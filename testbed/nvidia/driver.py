"""NVIDIA's driver on a node, as far as software can stand for it: libraries, device nodes, and the kernel's own words.

The rule: what is laid has the names and places of a real driver, so NVIDIA's programs find it by themselves.  The
libraries are simgpu's; behind the device nodes there is nothing, and to open one gives ENXIO.
"""

import json
import sys
from pathlib import Path

from testbed.cluster.kubernetes.node import Node
from testbed.cluster.shell import run_command
from testbed.nvidia.kinds import NodeKind

GPUS = 4
VERSION = "580.65.06"
"""What simgpu's NVML says; NVIDIA's programs look for files with this ending."""
STATE = "/run/simgpu/gpus"
"""The file that all processes of the node share: the card itself, so to speak."""
_SIMGPU = Path(__file__).parents[2] / "build" / "simgpu"
_SCRIPT = Path(__file__).with_name("lay_driver.py")
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")
_UVM = 511
NODES = {
    **{f"nvidia{number}": (195, number) for number in range(GPUS)},
    "nvidiactl": (195, 255),
    "nvidia-modeset": (195, 254),
    "nvidia-uvm": (_UVM, 0),
    "nvidia-uvm-tools": (_UVM, 1),
}
_SMI = "#!/bin/sh\n# stands for NVIDIA's program, which CDI specs mount\necho NVIDIA-SMI of the test bed\n"


def lay(node: Node, kind: NodeKind) -> None:
    """Give the node the driver of this kind; a former one is taken away first."""
    wanted = {
        "root": kind.driver_root,
        "version": VERSION,
        "nodes": NODES,
        "libraries": {name: str(_SIMGPU / f"{name}.1") for name in _LIBRARIES},
        "programs": {"nvidia-smi": _SMI},
        "proc": {
            "modules": "nvidia 1 0 - Live 0x0\n",
            "devices": f"195 nvidia\n195 nvidiactl\n{_UVM} nvidia-uvm\n",
        },
        "state": STATE,
    }
    node.call(sys.executable, "-IS", str(_SCRIPT), json.dumps(wanted))
    make_cards(node)


def make_cards(node: Node) -> None:
    """Make the cards' state: four A100, as the kernel's module would find them."""
    settings = ("env", f"SIMGPU_FILE={STATE}", f"SIMGPU_DEVICES={GPUS}xA100-40GB")
    node.path(STATE).parent.mkdir(parents=True, exist_ok=True)
    run_command(*node.sandbox.command(*settings, str(_SIMGPU / "simgpu"), "devices"))


def uuids(node: Node) -> list[str]:
    """Return the cards' UUIDs in the order of their minor numbers."""
    told = node.call("env", f"SIMGPU_FILE={STATE}", str(_SIMGPU / "simgpu"), "devices")
    return [line.split()[1] for line in told.splitlines()]

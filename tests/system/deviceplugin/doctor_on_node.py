"""`doctor` on a real node: beside the plugin that runs there, with device nodes and a CDI spec that a test makes.

It owns how the node gets a driver's device nodes: in a /dev of the command's own, since this machine's is not ours.
"""

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from testbed.cluster.shell import run_command
from tests.system.deviceplugin.on_node import ROOT, SIMGPU, NodePlugin

Findings = dict[str, list[tuple[str, str, str]]]
"""By check: verdict, sentence and fix of each line."""
GPUS = 4
NODES = {"nvidiactl": 255, **{f"nvidia{number}": number for number in range(GPUS)}}
_SYSTEM_NODES = ("null", "zero", "full", "random", "urandom", "tty")
_UVM = "mknod {dev}/nvidia-uvm c 511 0"


@dataclass
class Doctor:
    """What the node has when `examine` looks at it."""

    plugin: NodePlugin
    folder: Path
    nodes: dict[str, int] = field(default_factory=lambda: dict(NODES))
    flags: list[str] = field(default_factory=list)
    library: Path = SIMGPU

    @property
    def spec(self) -> Path:
        return self.folder / "cdi" / "nvidia.json"

    def write_spec(self, uuids: list[str]) -> None:
        """Write a CDI spec for these cards, as `nvidia-ctk cdi generate` would."""
        devices = [
            {"name": uuid, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{number}"}]}}
            for number, uuid in enumerate(uuids)
        ]
        common = {"deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}]}
        self.spec.parent.mkdir(exist_ok=True)
        self.spec.write_text(
            json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": common})
        )

    def examine(self) -> Findings:
        """Run `doctor` on the node, and return what it finds."""
        node, dev = self.plugin.node, self.folder / "dev"
        dev.mkdir(exist_ok=True)
        environment = {
            "LD_LIBRARY_PATH": str(self.library),
            "SIMGPU_FILE": str(self.plugin.simgpu_file),
            "PYTHONPATH": str(ROOT),
        }
        command = [
            *("env", *(f"{name}={value}" for name, value in environment.items())),
            *(sys.executable, "-m", "deviceplugin", "doctor", "--json", f"--static-cdi-folder={self.spec.parent}"),
            *(f"--node-name={node.name}", f"--kubeconfig={node.plane.kubeconfig}"),
            *(f"--hook-file={self.folder / 'libnvshare.so'}", *self.flags),
        ]
        lines = [
            f"mount -t tmpfs tmpfs {dev}",
            *(f"cp -a /dev/{name} {dev}/{name}" for name in _SYSTEM_NODES),
            *(f"mknod {dev}/{name} c 195 {minor}" for name, minor in self.nodes.items()),
            _UVM.format(dev=dev),
            f"mount --move {dev} /dev",
            f"{shlex.join(command)} || test $? = 1",  # 1: it found faults
        ]
        answer = run_command(*node.sandbox.command("unshare", "--mount", "sh", "-euc", "\n".join(lines)))
        found: Findings = {}
        for line in json.loads(answer):
            found.setdefault(line["check"], []).append((line["verdict"], line["text"], line["fix"]))
        return found


def faults(found: Findings) -> dict[str, set[str]]:
    """Return the verdicts that are not OK, by check."""
    bad = {check: {verdict for verdict, _, _ in lines} - {"OK"} for check, lines in found.items()}
    return {check: verdicts for check, verdicts in bad.items() if verdicts}

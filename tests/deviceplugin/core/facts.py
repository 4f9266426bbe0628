"""A node on which all is well, as `doctor` sees it, and how a test breaks one thing on it."""

from dataclasses import replace
from typing import Any

from contract.sharing.inventory import Gpu
from deviceplugin.core.doctor.facts import (
    CdiFacts,
    ClusterFacts,
    DeviceNode,
    Facts,
    KubeletFacts,
    NvmlFacts,
    OurFacts,
    RuntimeFacts,
)
from deviceplugin.core.node_limits import NodeKind

UUID = "GPU-00000000-0000-0000-0000-000000000000"
GPU = Gpu(uuid=UUID, model="L4", memory_bytes=24 << 30, compute="8.9", minor=0)
X86_HEAD = b"\x7fELF" + bytes(14) + b"\x3e\x00"
NODES = dict.fromkeys(("nvidiactl", "nvidia-uvm", "nvidia0"), DeviceNode.THERE)

WELL = Facts(
    kind=NodeKind("6.8.0-45-generic", "x86_64"),
    sees_node=True,
    nvml=NvmlFacts(answers=True, told="NVML is /x.", gpus=(GPU,), compute_modes={UUID: "Default"}),
    here=NODES,
    on_node=NODES,
    cdi=CdiFacts(
        folders={"/etc/cdi": True, "/var/run/cdi": True},
        specs={"/var/run/cdi/nvidia.yaml": ("nvidia.com/gpu", ("0", UUID, "all"))},
        malformed={},
        source="nvidia-cdi",
        told="GPU devices: nvidia-cdi. They are copied.",
        is_trouble=False,
    ),
    runtime=RuntimeFacts(
        name="containerd",
        version="2.1.4",
        takes_cdi=True,
        config_file="/host/etc/containerd/config.toml",
        cdi_folders=("/etc/cdi", "/var/run/cdi"),
        default_handler="runc",
        handlers=("nvidia", "runc"),
    ),
    cluster=ClusterFacts(kubelet="v1.36.4", slots=10, runtime_classes={"nvidia": "nvidia"}),
    kubelet=KubeletFacts(folder="/k", registers=True, pod_resources=True, foreign={}),
    ours=OurFacts(
        root="/var/lib/nvshare",
        root_is_writable=True,
        cdi_folder="/var/run/cdi",
        cdi_is_writable=True,
        image_hook=X86_HEAD,
        hook=X86_HEAD,
        names_hook=True,
        scheduler_answers=True,
        control_socket="/c.sock",
    ),
)


def but(part: str, **changes: Any) -> Facts:
    """Return the well node with one part changed."""
    return replace(WELL, **{part: replace(getattr(WELL, part), **changes)})

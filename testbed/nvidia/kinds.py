"""The kinds of GPU nodes that clusters have today, as one table: what is installed and set, and what must come of it.

The rule: a row is only data.  `bed` makes a node of it with NVIDIA's own programs, and the tests hold it to `outcome`.
"""

from dataclasses import dataclass
from enum import StrEnum

HOST_ROOT = "/"
DRIVER_CONTAINER = "/run/nvidia/driver"
"""Where GPU Operator mounts the root of its driver container."""
OPERATOR_NAMESPACE = "gpu-operator"


class Installed(StrEnum):
    """How NVIDIA's toolkit came onto the node."""

    NOTHING = "no toolkit"
    OLD = "toolkit 1.17, on the host"
    HOST = "toolkit 1.20, on the host"
    OPERATOR = "toolkit 1.20, by GPU Operator's installer"
    NRI = "toolkit 1.20, by GPU Operator's installer as NRI plugin"


class Spec(StrEnum):
    """A CDI kind of NVIDIA's, and so a file on the node."""

    GPU = "nvidia.com/gpu"
    """`nvidia-ctk cdi generate`; packages of 1.18 and newer run it at each boot and driver change."""
    DEVICE_PLUGIN = "k8s.device-plugin.nvidia.com/gpu"
    """NVIDIA's device plugin with the strategies cdi-annotations and cdi-cri."""
    MANAGEMENT = "management.nvidia.com/gpu"
    """GPU Operator's installer: one device, `all`."""


class Outcome(StrEnum):
    """What must come of a pod with a vGPU."""

    RUNS = "runs with exactly its card"
    WAITS = "waits, and the plugin and doctor say why"
    """No CDI spec, and nobody on the node reads the environment: a container would start without a GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeKind:
    """One row of the table."""

    name: str
    what: str
    installed: Installed
    mode: str = "auto"
    """`mode` of config.toml."""
    is_default: bool = False
    """NVIDIA's runtime is containerd's default."""
    takes_variable: bool = True
    """accept-nvidia-visible-devices-envvar-when-unprivileged."""
    specs: tuple[Spec, ...] = ()
    driver_root: str = HOST_ROOT
    components: tuple[str, ...] = ()
    """Components of our manifests that the install page names for this kind."""
    outcome: Outcome = Outcome.RUNS

    @property
    def has_runtime(self) -> bool:
        """Return whether containerd knows NVIDIA's runtime."""
        return self.installed not in (Installed.NOTHING, Installed.NRI)

    @property
    def is_operator(self) -> bool:
        return self.installed in (Installed.OPERATOR, Installed.NRI)


KINDS = (
    NodeKind(
        name="host-1.17-legacy",
        what="toolkit 1.17 on the host, default runtime, mode auto means legacy",
        installed=Installed.OLD,
        is_default=True,
    ),
    NodeKind(
        name="host-auto",
        what="toolkit 1.20 on the host, default runtime, mode auto means jit-cdi, no spec on the node",
        installed=Installed.HOST,
        is_default=True,
    ),
    NodeKind(
        name="host-auto-spec",
        what="toolkit 1.20 as its packages install it: the same, and nvidia.yaml is refreshed at boot",
        installed=Installed.HOST,
        is_default=True,
        specs=(Spec.GPU,),
    ),
    NodeKind(
        name="host-cdi",
        what="toolkit 1.20 on the host, default runtime, mode cdi, nvidia.yaml",
        installed=Installed.HOST,
        mode="cdi",
        is_default=True,
        specs=(Spec.GPU,),
    ),
    NodeKind(
        name="operator-25.10",
        what="GPU Operator 25.10 and newer as it comes: runc is the default, class nvidia, mode cdi, management kind",
        installed=Installed.OPERATOR,
        mode="cdi",
        specs=(Spec.MANAGEMENT,),
        driver_root=DRIVER_CONTAINER,
        components=("gpu-operator",),
    ),
    NodeKind(
        name="operator-device-plugin",
        what="operator-25.10 with NVIDIA's device plugin beside ours",
        installed=Installed.OPERATOR,
        mode="cdi",
        specs=(Spec.MANAGEMENT, Spec.DEVICE_PLUGIN),
        driver_root=DRIVER_CONTAINER,
        components=("gpu-operator",),
    ),
    NodeKind(
        name="operator-default-runtime",
        what="GPU Operator with NVIDIA_RUNTIME_SET_AS_DEFAULT: class nvidia is the default, mode cdi, management kind",
        installed=Installed.OPERATOR,
        mode="cdi",
        is_default=True,
        specs=(Spec.MANAGEMENT,),
        driver_root=DRIVER_CONTAINER,
    ),
    NodeKind(
        name="operator-nri",
        what="GPU Operator with the NRI plugin: containerd knows no runtime of NVIDIA's, no runtime class",
        installed=Installed.NRI,
        mode="cdi",
        specs=(Spec.MANAGEMENT, Spec.DEVICE_PLUGIN),
        driver_root=DRIVER_CONTAINER,
        components=("driver-root",),
    ),
    NodeKind(
        name="hardened",
        what="host-auto-spec with accept-nvidia-visible-devices-envvar-when-unprivileged=false",
        installed=Installed.HOST,
        is_default=True,
        takes_variable=False,
        specs=(Spec.GPU,),
        components=("driver-root",),
    ),
    NodeKind(
        name="hardened-no-spec",
        what="hardened on a host whose specs were never generated",
        installed=Installed.HOST,
        is_default=True,
        takes_variable=False,
        components=("driver-root",),
        outcome=Outcome.WAITS,
    ),
    NodeKind(
        name="driver-only",
        what="the driver and nothing else: no toolkit, no spec",
        installed=Installed.NOTHING,
        components=("driver-root",),
        outcome=Outcome.WAITS,
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}

"""What `doctor` knows of a node, as frozen values; None or an empty text where it could not be seen from its place.

The module owns no judgement: `deviceplugin.doctor` gathers these, and the checks beside this module judge them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from contract.sharing.inventory import Gpu
from deviceplugin.core.node_limits import NodeKind


class DeviceNode(StrEnum):
    """How a device node was found."""

    THERE = "there"
    ABSENT = "absent"
    OTHER = "no device of NVIDIA's driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFacts:
    """What NVML says, or why it does not."""

    answers: bool
    told: str
    """One sentence: which library, or what was looked at and what to do."""
    gpus: tuple[Gpu, ...] = ()
    compute_modes: Mapping[str, str] = field(default_factory=dict)
    """By UUID, in NVML's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """The container runtime: what the Node says of it, and what its configuration says."""

    name: str = ""
    version: str = ""
    takes_cdi: bool = False
    """By the versions of runtime and kubelet."""
    config_file: str = ""
    """Empty: none could be seen."""
    config_error: str = ""
    enable_cdi: bool | None = None
    """None: the runtime's default."""
    cdi_folders: tuple[str, ...] | None = None
    default_handler: str = ""
    handlers: tuple[str, ...] = ()
    toolkit: "ToolkitFacts | None" = None
    """None: no configuration of NVIDIA's toolkit could be seen."""


@dataclass(frozen=True, slots=True)
class ToolkitFacts:
    """The configuration of NVIDIA's container toolkit."""

    file: str
    takes_variable: bool = True
    """It reads NVIDIA_VISIBLE_DEVICES of unprivileged containers."""
    mode: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the API server says."""

    trouble: str = ""
    """Why it was not asked, or does not answer."""
    kubelet: str = ""
    slots: int | None = None
    """How many of our slots the Node offers."""
    runtime_classes: Mapping[str, str] | None = None
    """Handlers by name; None: we may not list them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """The kubelet's sockets."""

    folder: str
    registers: bool
    """Its socket for device plugins is there."""
    pod_resources: bool
    """pod-resources answers."""
    foreign: Mapping[str, str] | None = None
    """The GPUs that other plugins offer, with their resource; None: pod-resources does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OurFacts:
    """Our parts on the node."""

    root: str
    root_is_writable: bool
    cdi_folder: str
    cdi_is_writable: bool
    image_hook: bytes | None
    """The first bytes of the hook that came with the image; None: it is missing."""
    hook: bytes | None
    """The same of the hook on the node."""
    names_hook: bool
    """The file that names the hook to the loader is on the node."""
    scheduler_answers: bool
    control_socket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiFacts:
    """NVIDIA's CDI specs on this node, and where devices would come from."""

    folders: Mapping[str, bool]
    """Each folder, and whether it is there."""
    specs: Mapping[str, tuple[str, tuple[str, ...]]]
    """By file: its kind and its devices."""
    malformed: Mapping[str, str]
    """By file: what is wrong."""
    source: str
    """A word of `DevicesFrom`."""
    told: str
    """Why, in sentences that hold the fix."""
    is_trouble: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the checks judge."""

    kind: NodeKind
    sees_node: bool
    """The node's root can be seen, as where it is mounted at /host."""
    nvml: NvmlFacts
    here: Mapping[str, DeviceNode]
    """The device nodes in this container, by name."""
    on_node: Mapping[str, DeviceNode] | None
    """The same on the node; None: they cannot be seen."""
    cdi: CdiFacts
    runtime: RuntimeFacts
    cluster: ClusterFacts
    kubelet: KubeletFacts
    ours: OurFacts

"""Every version that the test cluster is made of, in one place.

The rule: a program is built only from the names here and from the committed go.mod and go.sum.  A test compares them.
Plain values.
"""

from dataclasses import dataclass, field

KUBERNETES = "1.36.4"
CONTAINERD = "2.3.6"
NVIDIA_TOOLKIT = "1.20.0"
NVIDIA_TOOLKIT_LEGACY = "1.17.8"
"""The last line whose mode `auto` means legacy; the Go module proxy has this one of it."""
GO_AT_LEAST = (1, 26, 8)
"""containerd's go.mod asks for it.  Where the machine's compiler is older, the wheel in go/requirements.txt is used."""

PAUSE_IMAGE = "nvshare.local/pause:1"
BUSYBOX_IMAGE = "nvshare.local/busybox:1"
BASE_IMAGE = "nvshare.local/base"
"""The Dockerfile's BASE where no image registry can be reached: Debian with Python, made by mmdebstrap."""
DEBIAN_SUITE = "bookworm"


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    package: str


@dataclass(frozen=True, slots=True)
class Module:
    """One of our small Go modules: builds several programs that share most of what is compiled."""

    folder: str
    version: str
    programs: tuple[Program, ...]
    stamps: tuple[str, ...] = ()
    """Linker variables `name=value`: without them the API server calls itself v0.0.0 and clients complain."""
    needs_c: bool = field(default=False, repr=False)
    """Built with cgo.  It is not in the name of a build, because it cannot change without the packages."""


def _kubernetes(name: str) -> Program:
    return Program(name, f"k8s.io/kubernetes/cmd/{name}")


def _containerd(name: str) -> Program:
    return Program(name, f"github.com/containerd/containerd/v2/cmd/{name}")


def _nvidia(folder: str, version: str, *further: str) -> Module:
    package = "github.com/NVIDIA/nvidia-container-toolkit"
    runtimes = ("nvidia-container-runtime", "nvidia-container-runtime.cdi", "nvidia-container-runtime.legacy")
    names = ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime-hook", *runtimes, *further)
    return Module(
        folder=folder,
        version=version,
        programs=tuple(Program(name, f"{package}/cmd/{name}") for name in names),
        stamps=(f"{package}/internal/info.version={version}",),
        needs_c=True,  # NVML is called through cgo
    )


_MAJOR, _MINOR, _ = KUBERNETES.split(".")

CONTROL_PLANE = Module(
    folder="kubernetes",
    version=KUBERNETES,
    # etcd is the one that this API server is tested with upstream, and shares its packages: one build instead of two
    programs=(
        Program("etcd", "go.etcd.io/etcd/server/v3"),
        *map(_kubernetes, ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")),
        *map(_kubernetes, ("kubelet", "kube-proxy")),
    ),
    stamps=(
        f"k8s.io/component-base/version.gitVersion=v{KUBERNETES}",
        f"k8s.io/component-base/version.gitMajor={_MAJOR}",
        f"k8s.io/component-base/version.gitMinor={_MINOR}",
    ),
)
RUNTIME = Module(
    folder="containerd",
    version=CONTAINERD,
    programs=tuple(map(_containerd, ("containerd", "containerd-shim-runc-v2", "ctr"))),
    stamps=(f"github.com/containerd/containerd/v2/version.Version={CONTAINERD}",),
)
MODULES = (CONTROL_PLANE, RUNTIME)
"""What every node needs."""

# the installer is what the GPU operator runs on each node; it contains NVIDIA's NRI plugin, too
TOOLKIT = _nvidia("nvidia", NVIDIA_TOOLKIT, "nvidia-ctk-installer")
TOOLKIT_LEGACY = _nvidia("nvidia-1.17", NVIDIA_TOOLKIT_LEGACY)
NVIDIA_MODULES = (TOOLKIT, TOOLKIT_LEGACY)
"""What a node of `testbed/nvidia` needs besides."""

KUBEBUILDER_PROGRAMS = ("etcd", "kube-apiserver", "kubectl")
"""The programs in the folder that KUBEBUILDER_ASSETS names; with it the control plane needs no build."""

NODE_PACKAGES = {
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "busybox": "busybox-static",
}
"""A command or file of a node, and the Debian package that contains it."""

IMAGE_PACKAGES = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "gcc": "gcc"}
"""The same for building the image."""

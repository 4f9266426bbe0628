"""The files of NVIDIA's driver on this node: its library below a root, its device nodes, and what to say of them.

It owns the lists of places, and the sentences about a search.
NVIDIA's runtime puts library and device nodes into a container.  Where it does not, they come from the driver's root:
the node's own root, or the root of the driver container, which GPU Operator mounts.
A link below a root is followed below that root: on the node `/etc/alternatives` is the node's, not the container's.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
NODE_MOUNT = Path("/host")
"""Where our manifests mount the node's root."""
OPERATOR_ROOT = Path("/run/nvidia/driver")
"""Where GPU Operator mounts the root of its driver container."""
ROOTS = (NODE_MOUNT / OPERATOR_ROOT.relative_to("/"), OPERATOR_ROOT, NODE_MOUNT, Path("/"))
"""What is searched when no root is named, in this order."""
DEVICE_FOLDER = Path("/dev")
CONTROL_NODE = "nvidiactl"
_DRIVER_MAJOR = 195
_FIXED = re.compile(r"nvidia(ctl|[0-9]+)", re.ASCII)
"""The nodes that have this number on every Linux; nvidia-uvm gets another one at each load."""
_TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu")
_FOLDERS = (
    "usr/lib64",
    *(f"usr/lib/{triple}" for triple in _TRIPLES),
    *(f"usr/lib/{triple}/nvidia/current" for triple in _TRIPLES),
    "usr/lib",
    "lib64",
    *(f"lib/{triple}" for triple in _TRIPLES),
    "lib",
    "usr/local/nvidia/lib64",  # images of NVIDIA's, and what GKE mounts
    "home/kubernetes/bin/nvidia/lib64",  # GKE's Container-Optimized OS
    "usr/local/glibc/usr/lib",  # Talos
    "run/opengl-driver/lib",  # NixOS
    "usr/lib/wsl/lib",
)
_VERSIONED = re.compile(r"libnvidia-ml\.so\.([0-9]+(?:\.[0-9]+)+)", re.ASCII)
_MODULE = re.compile(r"\b([0-9]+\.[0-9]+(?:\.[0-9]+)?)\b", re.ASCII)
_COMPONENTS = (
    "use the component gpu-operator where the cluster has a RuntimeClass nvidia, else driver-root (docs/install.md)"
)
_MAX_LINKS = 40
"""As the kernel counts them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be the driver's library."""

    root: Path
    file: Path
    """With no link on its way."""


class NodeState(StrEnum):
    """What a device node is, seen from here."""

    USABLE = "usable"
    IDLE = "there, without a driver behind it"
    ABSENT = "absent"
    FORBIDDEN = "there, but it may not be opened"
    OTHER = "no device of NVIDIA's driver"


def list_candidates(roots: tuple[Path, ...] = ROOTS) -> Iterator[Candidate]:
    """Yield the libraries below these roots, each file once: in each folder the usual name, then newest first."""
    seen: set[Path] = set()
    for root in roots:
        for folder in _FOLDERS:
            for name in _names_in(root, folder):
                file = resolve(root, Path(folder) / name)
                if file is not None and file not in seen and file.is_file():
                    seen.add(file)
                    yield Candidate(root, file)


def resolve(root: Path, path: Path) -> Path | None:
    """Return where a path below a root leads, with its links followed below that root; None where it leads nowhere."""
    parts, found, links = [*reversed(path.parts)], Path(), 0
    while parts:
        part = parts.pop()
        if part in ("/", "."):
            continue
        if part == "..":
            found = found.parent
            continue
        try:
            target = (root / found / part).readlink()
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: this is no link
                return None
            found /= part
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        if target.is_absolute():
            found = Path()
        parts.extend(reversed(target.parts))
    return root / found


def _names_in(root: Path, folder: str) -> list[str]:
    """Return the names under which a folder may hold the library."""
    there = resolve(root, Path(folder))
    try:
        names = [path.name for path in there.iterdir()] if there is not None else []
    except OSError:
        return []
    versioned = [name for name in names if _VERSIONED.fullmatch(name)]
    usual = [LIBRARY] if LIBRARY in names else []
    return usual + sorted(versioned, key=_version, reverse=True)


def _version(name: str) -> list[int]:
    found = _VERSIONED.fullmatch(name)
    return [int(part) for part in found[1].split(".")] if found else []


def card_node(minor: int) -> str:
    """Return the name of a card's device node."""
    return f"nvidia{minor}"


def look_at_node(name: str, folder: Path = DEVICE_FOLDER) -> NodeState:
    """Return what this device node is; open it for a moment, as NVML does."""
    path = folder / name
    try:
        found = path.stat()
    except OSError:
        return NodeState.ABSENT
    if not stat.S_ISCHR(found.st_mode):
        return NodeState.OTHER
    if _FIXED.fullmatch(name) and os.major(found.st_rdev) != _DRIVER_MAJOR:
        return NodeState.OTHER
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return NodeState.FORBIDDEN
    except OSError:
        return NodeState.IDLE
    return NodeState.USABLE


def read_module_version(file: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the version of the loaded kernel module; empty where none is loaded."""
    try:
        found = _MODULE.search(file.read_text())
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found else ""


def find_mounted_node(mount: Path = NODE_MOUNT) -> Path | None:
    """Return the node's root where our manifests mounted it into this container, else None."""
    return mount if mount.is_dir() else None


def below(roots: tuple[Path, ...]) -> str:
    """Return the roots as text."""
    return ", ".join(map(str, roots))


@dataclass(frozen=True, slots=True)
class Found:
    """The library that answers."""

    file: Path | None
    root: Path | None
    """None: the loader found it by itself, as where NVIDIA's runtime put it into the container."""
    driver: str

    def tell(self) -> str:
        """Return in one sentence which library answers."""
        where = "found by the loader" if self.root is None else f"below the driver's root {self.root}"
        return f"NVML is {self.file or LIBRARY} ({where}), driver {self.driver or 'of unknown version'}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What was looked at in vain, and what explains it."""

    tried: tuple[tuple[str, str], ...]
    """Each library, and its error."""
    roots: tuple[Path, ...]
    mismatch: bool = False
    """A library is of another version than the kernel module."""
    loaded: bool = False
    """At least one library could be loaded."""
    module: str = ""
    control: NodeState = NodeState.ABSENT
    is_named: bool = False
    """An operator named the root."""
    node_is_mounted: bool = False

    def tell(self) -> str:
        """Return what was looked at, and what to do."""
        looked = ", ".join(f"{name} ({error})" for name, error in self.tried) or "nothing"
        return f"NVML does not answer. Looked at: {looked}; searched below {below(self.roots)}. {self._advise()}"

    def _advise(self) -> str:
        return self._advise_loaded() if self.loaded else self._advise_absent()

    def _advise_loaded(self) -> str:
        node = f"{DEVICE_FOLDER / CONTROL_NODE}"
        if self.mismatch:
            return "The driver was upgraded under this process: start the pod again, and reboot the node if that fails."
        if not self.module:
            return "The kernel module is not loaded: load the driver on the node (modprobe nvidia; see dmesg)."
        if self.control is NodeState.ABSENT:
            return f"{node} is not here: {_COMPONENTS}."
        if self.control is NodeState.FORBIDDEN:
            return f"{node} may not be opened here, since a mount alone gives no right to a device: {_COMPONENTS}."
        return "The driver is loaded and does not answer: see the node's dmesg for lines of NVRM."

    def _advise_absent(self) -> str:
        if self.is_named:
            return f"There is no {LIBRARY} that can be loaded below {below(self.roots)}: correct --driver-root."
        if self.node_is_mounted:
            return "Install NVIDIA's driver on the node; one below another root is named with --driver-root."
        return f"Install NVIDIA's driver on the node, and let this pod have it: {_COMPONENTS}."

"""Gather the container runtime's configuration below the node's root.

The module owns where distributions keep it.  k3s and RKE2 write a file of their own and do not read /etc/containerd, so
their places come first.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from adapters.driver_files import resolve
from deviceplugin.core.doctor.facts import ClusterFacts, RuntimeFacts, ToolkitFacts
from deviceplugin.core.doctor.runtime_checks import why_no_environment
from deviceplugin.core.doctor.runtime_config import read_runtime_config, read_toolkit_config
from deviceplugin.doctor.cluster import NodeAnswer

_FILES = {
    "containerd": (
        "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
        "run/k0s/containerd-cri.toml",
        "var/snap/microk8s/current/args/containerd.toml",
        "etc/cri/containerd.toml",  # Talos
        "etc/containerd/config.toml",
    ),
    "cri-o": ("etc/crio/crio.conf",),
}
_TOOLKIT = (
    "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",  # GPU Operator
    "etc/nvidia-container-runtime/config.toml",
)
_BESIDE = {"cri-o": "etc/crio/crio.conf.d/*.conf"}
"""Read after the file, by name, whether it exists or not."""


def look_at_runtime(answer: NodeAnswer, root: Path | None) -> RuntimeFacts:
    """Return what the Node and the runtime's files say; without a root only what the Node says."""
    name, _, version = answer.runtime.partition("://")
    known = RuntimeFacts(name=name, version=version, takes_cdi=answer.takes_cdi)
    if root is None:
        return known
    known = replace(known, toolkit=_look_at_toolkit(root))
    kinds = [name] if name in _FILES else list(_FILES)
    for kind in kinds:
        files = list(_files_of(kind, root))
        if files:
            return _read(known, files, root)
    return known


def why_unread(root: Path | None) -> str:
    """Return why nobody on this node would read NVIDIA_VISIBLE_DEVICES of our containers.

    Return an empty text where NVIDIA's runtime reads it, and where the node's files do not tell: they are not seen, or
    two runtimes have left theirs.
    """
    if root is None or len([kind for kind in _FILES if any(_files_of(kind, root))]) != 1:
        return ""
    runtime = look_at_runtime(NodeAnswer(ClusterFacts()), root)
    return why_no_environment(runtime) if runtime.config_file else ""


def _look_at_toolkit(root: Path) -> ToolkitFacts | None:
    file = _first(_TOOLKIT, root)
    try:
        return None if file is None else read_toolkit_config(str(file), tomllib.loads(file.read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None


def _first(paths: tuple[str, ...], root: Path) -> Path | None:
    return next((file for path in paths if (file := resolve(root, Path(path))) and file.is_file()), None)


def _files_of(kind: str, root: Path) -> Iterator[Path]:
    first = _first(_FILES[kind], root)
    if first is not None:
        yield first
    if kind in _BESIDE:
        yield from sorted(root.glob(_BESIDE[kind]))


def _read(known: RuntimeFacts, files: list[Path], root: Path) -> RuntimeFacts:
    try:
        parsed = [table for file in files for table in _with_imports(file, root)]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return replace(known, config_error=f"{files[0]} cannot be read: {error}.")
    config = read_runtime_config(parsed)
    return replace(
        known,
        config_file=str(files[0]),
        enable_cdi=config.enable_cdi,
        cdi_folders=config.cdi_folders,
        default_handler=config.default_handler,
        handlers=config.handlers,
    )


def _with_imports(file: Path, root: Path) -> Iterator[dict[str, Any]]:
    """Yield a file and those that it imports: containerd lets them win, in their order."""
    table = tomllib.loads(file.read_text())
    yield table
    patterns = table.get("imports")
    for pattern in patterns if isinstance(patterns, list) else ():
        folder = root if PurePosixPath(str(pattern)).is_absolute() else file.parent
        for imported in sorted(folder.glob(str(pattern).lstrip("/"))):
            yield tomllib.loads(imported.read_text())

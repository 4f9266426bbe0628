"""What a container runtime's configuration and that of NVIDIA's toolkit say, read from their parsed files.

The module owns the names of the sections: containerd 1 and 2 have different ones, CRI-O its own.  Of several files the
later one wins, key by key, as in the runtimes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deviceplugin.core.doctor.facts import ToolkitFacts

_SECTIONS = (
    ("plugins", "io.containerd.cri.v1.runtime"),
    ("plugins", "io.containerd.grpc.v1.cri"),
    ("crio", "runtime"),
)


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """What matters to us; None or empty where the files do not say."""

    enable_cdi: bool | None = None
    cdi_folders: tuple[str, ...] | None = None
    default_handler: str = ""
    handlers: tuple[str, ...] = ()


def read_runtime_config(files: Iterable[Mapping[str, Any]]) -> RuntimeConfig:
    """Return what these files say together."""
    merged: dict[str, Any] = {}
    for file in files:
        for section in (_section(file, path) for path in _SECTIONS):
            merged = _merge(merged, section)
    inner = _mapping(merged.get("containerd"))
    folders = merged.get("cdi_spec_dirs")
    enabled = merged.get("enable_cdi")
    default = inner.get("default_runtime_name") or merged.get("default_runtime") or ""
    handlers = {**_mapping(inner.get("runtimes")), **_mapping(merged.get("runtimes"))}
    return RuntimeConfig(
        enable_cdi=enabled if isinstance(enabled, bool) else None,
        cdi_folders=tuple(map(str, folders)) if isinstance(folders, list) else None,
        default_handler=str(default),
        handlers=tuple(sorted(handlers)),
    )


def read_toolkit_config(file: str, table: Mapping[str, Any]) -> ToolkitFacts:
    """Return what the configuration of NVIDIA's toolkit says; what it leaves out has NVIDIA's defaults."""
    mode = _mapping(table.get("nvidia-container-runtime")).get("mode")
    return ToolkitFacts(
        file,
        takes_variable=table.get("accept-nvidia-visible-devices-envvar-when-unprivileged") is not False,
        mode=str(mode or "auto"),
    )


def _section(file: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = file
    for name in path:
        found = _mapping(found.get(name))
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        is_table = isinstance(before, Mapping) and isinstance(value, Mapping)
        both[key] = _merge(_mapping(before), value) if is_table else value
    return both

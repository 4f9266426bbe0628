"""The CDI spec of an allocation, and the same parts for a runtime without CDI.

The module owns what an allocation always carries, in one table: the hook, the file that names the hook to the loader,
the allocation's own socket folder, and the visible GPUs.  Pure.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.allocation import Allocation
from contract.words import names, paths
from deviceplugin.errors import BadSpec
from deviceplugin.layout import Layout

CDI_VERSION = "0.5.0"
"""The oldest version that has all we use, so that old runtimes can read the spec."""
_DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_MOUNT_OPTIONS = ("nosuid", "nodev", "bind")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bind:
    """One mount of a container."""

    host: Path
    container: str
    read_only: bool = True

    @property
    def options(self) -> list[str]:
        return ["ro" if self.read_only else "rw", *_MOUNT_OPTIONS]


@dataclass(frozen=True, slots=True)
class Edits:
    """Environment and mounts that a container gets with its slots."""

    env: Mapping[str, str]
    binds: tuple[Bind, ...]


def edits_of(allocation: Allocation, layout: Layout) -> Edits:
    """Return everything that an allocation carries.

    It never holds LD_PRELOAD or NVSHARE_MODE.  The pod sets those, and CDI's environment would overwrite them.
    """
    return Edits(
        env={names.ENV_VISIBLE_DEVICES: ",".join(allocation.uuids), **dict(layout.also_env)},
        binds=(
            Bind(layout.hook_folder, paths.CONTAINER_HOOK_FOLDER),
            Bind(layout.preload_file, paths.CONTAINER_PRELOAD_FILE),
            Bind(layout.allocation(allocation.key), f"{paths.CONTAINER_SOCKETS}/{paths.OWN_FOLDER}"),
            *(Bind(host, container, read_only=False) for host, container in layout.also_mounts),
        ),
    )


def device_name(key: str) -> str:
    """Return the CDI device's full name, which the kubelet passes to the runtime."""
    return f"{names.CDI_KIND}={key}"


def file_name(key: str) -> str:
    """Return the spec's file name: the kind with its slash replaced, then the device."""
    return f"{names.CDI_KIND.replace('/', '-')}_{key}.json"


def build_spec(allocation: Allocation, layout: Layout) -> Json:
    """Build the CDI spec with the allocation as its only device."""
    edits = edits_of(allocation, layout)
    mounts = [
        {"hostPath": str(bind.host), "containerPath": bind.container, "options": bind.options} for bind in edits.binds
    ]
    env = [f"{name}={value}" for name, value in edits.env.items()]
    device = {"name": allocation.key, "containerEdits": {"env": env, "mounts": mounts}}
    return {"cdiVersion": CDI_VERSION, "kind": names.CDI_KIND, "devices": [device]}


def render_spec(spec: Json) -> str:
    """Return the spec's text; raise `BadSpec` where a runtime would refuse it.

    One bad file can keep every container of a node from starting.
    """
    for complaint in complaints_about(spec):
        raise BadSpec(f"the CDI spec is not valid: {complaint}")
    return json.dumps(spec) + "\n"


def complaints_about(spec: Json) -> list[str]:
    """Return what a runtime would find wrong."""
    complaints = []
    if spec.get("cdiVersion") != CDI_VERSION or spec.get("kind") != names.CDI_KIND:
        complaints.append(f"it must be of version {CDI_VERSION} and kind {names.CDI_KIND}")
    devices = spec.get("devices") or []
    if not devices:
        complaints.append("it has no devices")
    for device in devices:
        complaints += _complaints_about_device(device)
    return complaints


def _complaints_about_device(device: Json) -> list[str]:
    edits = device.get("containerEdits") or {}
    mounts = edits.get("mounts") or []
    name = str(device.get("name", ""))
    complaints = [] if _DEVICE_NAME.fullmatch(name) else [f"{name!r} is not a device name"]
    if not edits.get("env") or any(not entry.partition("=")[0] or "=" not in entry for entry in edits["env"]):
        complaints.append("its environment must be a list of NAME=value")
    for mount in mounts:
        if not all(str(mount.get(key, "")).startswith("/") for key in ("hostPath", "containerPath")):
            complaints.append(f"mount {mount!r} must have absolute paths on both sides")
    return complaints if mounts else [*complaints, "it has no mounts"]

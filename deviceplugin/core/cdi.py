"""The CDI spec of an allocation, and the same parts for a runtime without CDI.

The module owns what an allocation always carries, in one table: the hook, the file that names the hook to the loader,
and the allocation's own socket folder.  A spec also carries the GPUs' devices, which `gpu_devices.py` found on the
node, and the proof of its binding (`binding.py`).  Pure.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contract.allocation import Allocation
from contract.words import names, paths
from deviceplugin.core.device_edits import VERSIONS, DeviceEdits, join_edits, newest, write_edits
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.errors import BadSpec
from deviceplugin.layout import Layout

CDI_VERSION = "0.5.0"
"""The oldest version that has all we use, so that old runtimes can read the spec."""
_DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_MOUNT_OPTIONS = ("nosuid", "nodev", "bind")
_OWN_FOLDER = f"{paths.CONTAINER_SOCKETS}/{paths.OWN_FOLDER}"
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
    """Return everything of ours that an allocation carries; the GPUs' own devices come beside it.

    It never holds LD_PRELOAD or NVSHARE_MODE.  The pod sets those, and CDI's environment would overwrite them.
    """
    return Edits(
        env=dict(layout.also_env),
        binds=(
            Bind(layout.hook_folder, paths.CONTAINER_HOOK_FOLDER),
            Bind(layout.preload_file, paths.CONTAINER_PRELOAD_FILE),
            Bind(layout.allocation(allocation.key), _OWN_FOLDER),
            *(Bind(host, container, read_only=False) for host, container in layout.also_mounts),
        ),
    )


def plain_edits(allocation: Allocation, layout: Layout) -> Edits:
    """Return the same for a runtime without CDI, where NVIDIA's runtime brings the GPUs that the environment names."""
    ours = edits_of(allocation, layout)
    return replace(ours, env={names.ENV_VISIBLE_DEVICES: ",".join(allocation.uuids), **ours.env})


def device_name(name: str) -> str:
    """Return the CDI device's full name, which the kubelet passes to the runtime."""
    return f"{names.CDI_KIND}={name}"


def is_ours(device: str) -> bool:
    """Return whether a CDI device's full name is of our kind."""
    return device.startswith(f"{names.CDI_KIND}=")


def file_name(key: str) -> str:
    """Return the spec's file name: the kind with its slash replaced, then the allocation's key."""
    return f"{names.CDI_KIND.replace('/', '-')}_{key}.json"


def bound_file(allocation: Allocation, layout: Layout) -> Path:
    """Return the file that proves a spec to be of this binding: a container of an older spec cannot mount it."""
    return layout.allocation(allocation.key) / f"{paths.BOUND_FILE}{allocation.binding}"


def build_spec(allocation: Allocation, layout: Layout, gpus: GpuDevices) -> Json:
    """Build the CDI spec of a bound allocation; raise `NoDevices` where the node does not have its GPUs' devices.

    All of its devices are the same one under the names that containers were told, so the edits stand in the spec.
    """
    ours = edits_of(allocation, layout)
    guard = bound_file(allocation, layout)
    binds = (*ours.binds, Bind(guard, f"{_OWN_FOLDER}/{guard.name}"))
    mounts = [{"hostPath": str(bind.host), "containerPath": bind.container, "options": bind.options} for bind in binds]
    env = [f"{name}={value}" for name, value in ours.env.items()]
    edits = join_edits([gpus.edits_of(allocation.uuids), DeviceEdits(env=tuple(env), mounts=tuple(mounts))])
    visible = [entry for entry in edits.env if entry.startswith(f"{names.ENV_VISIBLE_DEVICES}=")]
    devices = [{"name": name, "containerEdits": {"env": visible}} for name in allocation.names]
    version = newest([CDI_VERSION, gpus.version_of(allocation.uuids)])
    return {
        "cdiVersion": version,
        "kind": names.CDI_KIND,
        "containerEdits": write_edits(edits),
        "devices": devices,
    }


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
    if spec.get("cdiVersion") not in VERSIONS or spec.get("kind") != names.CDI_KIND:
        complaints.append(f"it must be of a known version and of kind {names.CDI_KIND}")
    devices = spec.get("devices") or []
    if not devices:
        complaints.append("it has no devices")
    for device in devices:
        complaints += _complaints_about_device(device)
    mounts = (spec.get("containerEdits") or {}).get("mounts") or []
    for mount in mounts:
        # a mount with a type of its own, such as tmpfs, has no path on the host
        sides = ("containerPath",) if mount.get("type") else ("hostPath", "containerPath")
        if not all(str(mount.get(key, "")).startswith("/") for key in sides):
            complaints.append(f"mount {mount!r} must have absolute paths on both sides")
    return complaints if mounts else [*complaints, "it has no mounts"]


def _complaints_about_device(device: Json) -> list[str]:
    edits = device.get("containerEdits") or {}
    name = str(device.get("name", ""))
    complaints = [] if _DEVICE_NAME.fullmatch(name) else [f"{name!r} is not a device name"]
    if not edits.get("env") or any(not entry.partition("=")[0] or "=" not in entry for entry in edits["env"]):
        complaints.append("its environment must be a list of NAME=value")
    return complaints

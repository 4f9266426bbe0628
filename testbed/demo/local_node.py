"""Run a pod's containers as local processes, as a node does, but without isolation.

The environment is the one that the patch gave the container.  A path in the container is found by the pod's own mounts
and volumes.  A path on the node lies below a folder of the demo.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from contract.words import names, paths

Pod = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """The folders that stand for the node's: each path on the node, and where it lies here."""

    folders: Mapping[str, Path]
    environ: Mapping[str, str]
    """The environment of every process here: the software GPU's library path and devices."""

    def locate(self, path: str) -> Path | None:
        """Return where a path on the node lies here; None for a path that this node does not have."""
        for folder, here in self.folders.items():
            if PurePosixPath(path).is_relative_to(folder):
                return here / PurePosixPath(path).relative_to(folder)
        return None


def mounted_folders(pod: Pod, container: Mapping[str, Any], node: Node) -> dict[str, Path]:
    """Return each mount that this node can serve: its path in the container, and its folder here."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    found: dict[str, Path] = {}
    for mount in container.get("volumeMounts", ()):
        source = volumes[mount["name"]].get("hostPath", {}).get("path")
        here = node.locate(source) if source else None
        if here is not None:
            found[mount["mountPath"]] = here
    return found


def environment_of(pod: Pod, container: Mapping[str, Any], node: Node, *, uuids: Sequence[str]) -> dict[str, str]:
    """Build the environment of the container's process; `uuids` are the GPUs that the device plugin would give."""
    mounts = mounted_folders(pod, container, node)
    given = {item["name"]: item["value"] for item in container.get("env", ()) if "value" in item}
    mapped = {name: _map_paths(value, mounts) for name, value in given.items()}
    allocated = {names.ENV_VISIBLE_DEVICES: ",".join(uuids), "CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    sockets = mounts.get(paths.CONTAINER_SOCKETS)
    if sockets is not None:
        allocated[names.ENV_SOCKETS] = str(sockets)
    inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return {**inherited, **node.environ, **allocated, **mapped}


def _map_paths(value: str, mounts: Mapping[str, Path]) -> str:
    """Replace each part of a colon-separated list that lies below a mount with its path here."""
    return ":".join(_map_path(part, mounts) for part in value.split(":"))


def _map_path(path: str, mounts: Mapping[str, Path]) -> str:
    for mount, here in mounts.items():
        if path.startswith("/") and PurePosixPath(path).is_relative_to(mount):
            return str(here / PurePosixPath(path).relative_to(mount))
    return path


def start_container(
    pod: Pod, node: Node, *, uuids: Sequence[str], programs: Mapping[str, Path]
) -> subprocess.Popen[str]:
    """Start the pod's first container; `programs` says where the commands of its image lie here."""
    container = pod["spec"]["containers"][0]
    command = [*container["command"], *container.get("args", ())]
    command[0] = str(programs[command[0]])
    environ = environment_of(pod, container, node, uuids=uuids) | {"SIMGPU_LABEL": pod["metadata"]["name"]}
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

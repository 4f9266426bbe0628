"""The manifests as kustomize builds them.  It uses the kubectl of testbed/cluster, and needs no cluster."""

import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from testbed.cluster.supplies.build import control_plane_programs

ROOT = Path(__file__).parents[3] / "manifests"
OVERLAYS = sorted(path.parent.name for path in (ROOT / "overlays").glob("*/kustomization.yaml"))
SAMPLES = sorted((ROOT / "samples").glob("*.yaml"))
Object = dict[str, Any]


@lru_cache
def rendered(folder: Path) -> str:
    """Return what `kubectl kustomize` prints for a folder."""
    kubectl = control_plane_programs(say=print) / "kubectl"
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(name: str = "base") -> list[Object]:
    """Return the objects of `base` or of an overlay."""
    folder = ROOT / "base" if name == "base" else ROOT / "overlays" / name
    return list(yaml.safe_load_all(rendered(folder)))


def of_kind(found: list[Object], *kinds: str) -> Iterator[Object]:
    return (item for item in found if item["kind"] in kinds)


def pod_templates(found: list[Object]) -> Iterator[tuple[str, Object]]:
    """Name and pod spec of every workload."""
    for item in of_kind(found, "Deployment", "DaemonSet"):
        yield item["metadata"]["name"], item["spec"]["template"]
    for item in of_kind(found, "CronJob"):
        yield item["metadata"]["name"], item["spec"]["jobTemplate"]["spec"]["template"]

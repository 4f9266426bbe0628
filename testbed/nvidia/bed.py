"""A node that becomes one kind of GPU node after the other, and our own manifests for it.

The rule: what an administrator of such a cluster has is made by NVIDIA's programs; what is ours comes from manifests/.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import kubernetes.client
import yaml

from contract.words import names
from testbed.cluster.cache import Say
from testbed.cluster.installed import IMAGE, MANIFESTS, SYSTEM, House
from testbed.cluster.kubernetes.node import Shape, cluster
from testbed.cluster.machine.processes import Process, wait_until
from testbed.cluster.supplies import image
from testbed.cluster.supplies.image import Target
from testbed.nvidia import cuda_image, driver, toolkit
from testbed.nvidia.kinds import NodeKind

_ROOM = Path(__file__).with_name("manifests")
_DAEMONS = 2
_DOCTOR = "app.kubernetes.io/name=nvshare-doctor"
_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
GPU_NODE = {"nvidia.com/gpu.present": "true"}
"""The label that NVIDIA's GPU feature discovery sets: our DaemonSets go where it is."""


@dataclass
class Bed:
    """One node, and what is installed on it now."""

    house: House
    say: Say
    kind: NodeKind | None = None
    uuids: list[str] = field(default_factory=list)
    """The cards in the order of their minor numbers."""
    reports: dict[str, str] = field(default_factory=dict)
    """What doctor said, by the kind's name."""
    _daemon: Process | None = None

    @cached_property
    def core(self) -> Any:
        """The core API, asked often: kubectl would cost a third of a second of processor time each time."""
        return self.house.plane.core

    @cached_property
    def apps(self) -> Any:
        return kubernetes.client.AppsV1Api(self.house.plane.client())

    def is_ready(self) -> bool:
        """Return whether webhook, device plugin and scheduler are what was applied last, and ready."""
        daemons = self.apps.list_namespaced_daemon_set(SYSTEM).items
        deployments = self.apps.list_namespaced_deployment(SYSTEM).items
        return (
            len(daemons) == _DAEMONS
            and bool(deployments)
            and all(_is_current(each) and (each.status.number_ready or 0) >= 1 for each in daemons)
            and all(_is_current(each) and each.status.ready_replicas == each.spec.replicas for each in deployments)
        )

    def slots(self) -> int:
        """Return how many vGPUs the node offers."""
        return int(self.core.read_node(self.house.node.name).status.allocatable.get(names.RESOURCE, "0"))

    def become(self, kind: NodeKind) -> None:
        """Make the node one of this kind; pods of ours must be gone."""
        node = self.house.node
        self._stop_daemon()
        toolkit.remove(node)
        driver.lay(node, kind)
        self._daemon = toolkit.install(node, kind, say=self.say)
        node.containerd.restart()
        toolkit.wait_for(node, kind, self._daemon)
        node.wait_ready()
        self._set_classes(kind)
        self.kind, self.uuids = kind, driver.uuids(node)

    def _set_classes(self, kind: NodeKind) -> None:
        if kind.is_operator and kind.has_runtime:
            self.house.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(map(_runtime_class, _CLASSES)))
        else:
            self.house.kubectl("delete", "runtimeclass", *_CLASSES, "--ignore-not-found")

    def apply(self) -> None:
        """Install nvshare-guard with the components that the install page names for this kind."""
        assert self.kind is not None
        with _kustomization("base", self.kind.components) as folder:
            self.house.kubectl("apply", "-k", str(folder))

    def examine(self) -> str:
        """Run `doctor` as the install page says, as a Job, and return its report."""
        house = self.house
        with _kustomization("doctor", ()) as folder:
            house.kubectl("apply", "-k", str(folder))
            try:
                wait_until(self._has_examined, what="the doctor's Job ends", seconds=60)
                (pod,) = self._pods(_DOCTOR)
                report = str(self.core.read_namespaced_pod_log(pod.metadata.name, SYSTEM))
            finally:
                house.kubectl("delete", "-k", str(folder), "--ignore-not-found", "--wait=true")
        assert self.kind is not None
        self.reports[self.kind.name] = report
        return report

    def _has_examined(self) -> bool:
        phases = [pod.status.phase for pod in self._pods(_DOCTOR)]
        return bool(phases) and set(phases) <= {"Succeeded", "Failed"}

    def remove_daemons(self) -> None:
        """Remove our DaemonSets with all they left on the node; webhook and certificates stay as they are."""
        self.apps.delete_collection_namespaced_daemon_set(SYSTEM)
        daemons = "app.kubernetes.io/name in (nvshare-device-plugin,nvshare-schedulerd)"
        wait_until(lambda: not self._pods(daemons), what="our DaemonSets' pods are gone", seconds=90)
        for folder, pattern in (("/var/lib/nvshare", "*"), ("/run/cdi", "nvshare*")):
            for path in self.house.node.path(folder).glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _pods(self, selector: str) -> list[Any]:
        return list(self.core.list_namespaced_pod(SYSTEM, label_selector=selector).items)

    def close(self) -> None:
        self._stop_daemon()

    def _stop_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None


def _is_current(item: Any) -> bool:
    return bool(item.status.observed_generation == item.metadata.generation)


def _runtime_class(name: str) -> dict[str, Any]:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}


@contextmanager
def _kustomization(base: str, components: tuple[str, ...]) -> Iterator[Path]:
    """Write an overlay: a folder of manifests/, the named components, and this room's own."""
    with tempfile.TemporaryDirectory(prefix="nv-") as name:
        folder = Path(name)
        chosen = [*(MANIFESTS / "components" / component for component in components), _ROOM]
        text = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(MANIFESTS / base, folder)],
            "components": [os.path.relpath(path, folder) for path in chosen],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(text))
        yield folder


@contextmanager
def nvidia_bed(say: Say = print) -> Iterator[Bed]:
    """Start a node of its own with our image and one like NVIDIA's CUDA images; it is of no kind yet."""
    archive = image.archive(Target.SIMGPU, say=say)
    with cluster(Shape(labels=GPU_NODE), say=say) as made:
        node = made.nodes[0]
        node.containerd.import_image(archive)
        cuda_image.put(node, archive, made_from=IMAGE, name=cuda_image.NAME, cards="all")
        cuda_image.put(node, archive, made_from=IMAGE, name=cuda_image.OTHER, cards="0")
        bed = Bed(House(node), say)
        try:
            yield bed
        finally:
            bed.close()

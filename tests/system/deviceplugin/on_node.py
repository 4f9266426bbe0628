"""The real plugin on a real node of testbed/cluster, with software GPUs, and small pods that use it.

It owns how the plugin is started there and how its pods look.  The hook is a stand-in here, an empty library: the tests
ask how the hook reaches a container, not what it does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes.client

from adapters.kubelet.pod_resources import PodResources
from adapters.kubelet.rpc import RpcError
from contract.words import names, node
from contract.words.device_id import decode
from deviceplugin.core.retention import Assignment
from deviceplugin.kubelet.pod_resources import KubeletPods
from testbed.cluster import pins
from testbed.cluster.kubernetes.node import Node
from testbed.cluster.machine.processes import Process, wait_until
from testbed.cluster.supplies import archives

ROOT = Path(__file__).parents[3]
SIMGPU = ROOT / "build" / "simgpu"
METRICS_PORT = 9090
"""Of the node's own network."""
GLIBC_IMAGE = "nvshare.local/device-plugin-glibc:1"
OWN_LIBRARY = "/opt/libown.so"
"""In that image: what a user preloads by herself."""
_HOOK_SOURCE = "int nvshare_stand_in = 1;\n"
SLEEP = "trap 'exit 0' TERM; sleep 100000 & wait"


@dataclass
class NodePlugin:
    """One plugin on one node; `process` may be killed and started again."""

    node: Node
    process: Process
    simgpu_file: Path

    def start(self, *, slots: int = 40) -> None:
        """Start, and return when kubelet and API server say so many slots."""
        self.process.start()
        self.wait_until_whole(slots)

    def restart(self) -> None:
        """Start again after a kill, as the kubelet does, but without its back-off."""
        self.process.start()

    def wait_for_slots(self, slots: int, *, seconds: float = 30.0) -> None:
        """Wait until the Node says so many slots."""
        wait_until(lambda: self.slots() == slots, what=f"{slots} slots", seconds=seconds, needs=(self.process,))

    def slots(self) -> int:
        """Return how many slots the API server says can be allocated."""
        return int(self.core.read_node(self.node.name).status.allocatable.get(names.RESOURCE, "0"))

    def wait_until_whole(self, slots: int, *, seconds: float = 60.0) -> None:
        """Wait until kubelet and plugin know each other and the API server says so many slots."""

        def is_whole() -> bool:
            try:
                return self.known_to_kubelet() == slots == self.slots()
            except RpcError:
                return False

        wait_until(is_whole, what=f"the kubelet gives out {slots} slots", seconds=seconds, needs=(self.process,))

    def known_to_kubelet(self) -> int:
        """Return how many healthy slots of ours the kubelet has; raise `RpcError` while there is no kubelet."""
        given_out = PodResources(self._pod_resources, seconds=5).list_allocatable()
        return sum(len(each.ids) for each in given_out if each.resource == names.RESOURCE)

    @property
    def _pod_resources(self) -> Path:
        return self.node.path("/var/lib/kubelet/pod-resources/kubelet.sock")

    @property
    def core(self) -> Any:  # the client's answers are typed as if each field could be absent
        return kubernetes.client.CoreV1Api(self.node.plane.client())

    def worker_pid(self) -> int:
        """Return the process that serves: the elder of the supervisor's two, since the other is its spare."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def assignments(self) -> tuple[Assignment, ...]:
        """Return what pod-resources says."""
        return KubeletPods(self._pod_resources, names.RESOURCE).list_pods().assignments

    def used_by_gpu(self) -> dict[str, int]:
        """Return how many slots of each GPU are in use, by pod-resources."""
        used: dict[str, int] = {}
        for each in self.assignments():
            for device_id in each.device_ids:
                uuid = decode(device_id).uuid
                used[uuid] = used.get(uuid, 0) + 1
        return used

    def free_slots_told(self) -> dict[str, int]:
        """Return the Node's annotation of free slots."""
        annotations = self.core.read_node(self.node.name).metadata.annotations or {}
        told: dict[str, int] = json.loads(annotations.get(node.FREE_SLOTS, "{}"))
        return told

    def allocation_keys(self) -> list[str]:
        """Return the allocation folders on the node."""
        folder = self.node.path("/var/lib/nvshare/allocations")
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))

    def metric(self, name: str) -> float:
        """Return one line of /metrics, by its name and labels."""
        text = self.node.call("wget", "-qO-", f"http://127.0.0.1:{METRICS_PORT}/metrics")
        return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name + " "))

    def simgpu(self, *words: str) -> str:
        """Set a fault of the software GPU, or end one."""
        environment = {**os.environ, "SIMGPU_FILE": str(self.simgpu_file), "LD_LIBRARY_PATH": str(SIMGPU)}
        return subprocess.run(
            [SIMGPU / "simgpu", *words], env=environment, check=True, capture_output=True, text=True
        ).stdout


def build_stand_in(folder: Path, name: str = "libnvshare.so") -> Path:
    """Build a library that does nothing, to be mapped in place of the hook."""
    source, library = folder / "stand-in.c", folder / name
    source.write_text(_HOOK_SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def import_glibc_image(node: Node, folder: Path) -> None:
    """Import an image whose shell, cat and sleep load libraries as a user's program does; busybox is static."""
    loaded = ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2")
    programs = {"bin/sh": "/bin/dash", "bin/cat": "/bin/cat", "bin/sleep": "/bin/sleep"}
    files = {path.lstrip("/"): Path(path).read_bytes() for path in loaded}
    files |= {inside: Path(path).read_bytes() for inside, path in programs.items()}
    files[OWN_LIBRARY.lstrip("/")] = build_stand_in(folder, "libown.so").read_bytes()
    archive = folder / "glibc.tar"
    archives.write_archive(archive, name=GLIBC_IMAGE, files=files, links={}, command=["/bin/sh"])
    node.containerd.import_image(archive)


@contextmanager
def node_plugin(
    node: Node, folder: Path, *flags: str, gpus: str = "4xA100-40GB", odd: str = ""
) -> Iterator[NodePlugin]:
    """Return a plugin that is ready to start, odd as `serve_odd` says; end it when the test is over."""
    simgpu_file = folder / "gpus"
    environment = {
        "LD_LIBRARY_PATH": str(SIMGPU),
        "SIMGPU_FILE": str(simgpu_file),
        "SIMGPU_DEVICES": gpus,
        "PYTHONPATH": str(ROOT),
    }
    command = [
        *("env", *(f"{name}={value}" for name, value in environment.items())),
        *(sys.executable, "-m", *(("tests.system.deviceplugin.serve_odd", odd) if odd else ("deviceplugin",)), "serve"),
        f"--node-name={node.name}",
        *(
            f"--hook-file={build_stand_in(folder)}",
            f"--kubeconfig={node.plane.kubeconfig}",
            f"--metrics-port={METRICS_PORT}",
            "--health-socket=off",
        ),
        *(
            "--rescan-seconds=5",
            "--check-seconds=0.5",
            "--quiet-seconds=2",
            "--release-seconds=5",
            "--others-seconds=5",
        ),
        *flags,
    ]
    process = node.sandbox.process(f"{node.name}-device-plugin", command)
    try:
        yield NodePlugin(node, process, simgpu_file)
    finally:
        process.stop()


@contextmanager
def scheduler(node: Node) -> Iterator[Process]:
    """Run the real scheduler daemon on the node."""
    environment = ("env", f"PYTHONPATH={ROOT}")
    command = [*environment, sys.executable, "-m", "schedulerd", "--observer=none"]
    process = node.sandbox.process(f"{node.name}-schedulerd", command)
    process.start()
    try:
        socket = node.path("/run/nvshare-admin/control.sock")
        wait_until(socket.exists, what="the scheduler listens", seconds=20, needs=(process,))
        yield process
    finally:
        process.stop()


def vgpu_container(name: str, vgpus: int, script: str = SLEEP, **more: Any) -> dict[str, Any]:
    """Return a container of a small image, without vGPUs when the number is 0."""
    resources = {"resources": {"limits": {names.RESOURCE: str(vgpus)}}} if vgpus else {}
    return {
        "name": name,
        "image": pins.BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        **resources,
        **more,
    }


def vgpu_pod(name: str, *vgpus: int, **more: Any) -> dict[str, Any]:
    """Return a pod with one container for each number."""
    containers = [vgpu_container(f"c{number}", count) for number, count in enumerate(vgpus)]
    spec = {"containers": containers, "terminationGracePeriodSeconds": 0, "restartPolicy": "Never", **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Pods:
    """The pods of one namespace; as a context, gone when it ends."""

    def __init__(self, plugin: NodePlugin, namespace: str) -> None:
        self._plugin, self._core, self.namespace = plugin, plugin.core, namespace

    def __enter__(self) -> "Pods":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Wait until no pod and no taken slot is left: a forgotten pod may hold its slots a little longer."""
        self.delete_all()
        wait_until(lambda: not self._hold_slots(), what="the kubelet has taken their slots back", seconds=60)

    def _hold_slots(self) -> bool:
        return any(each.namespace == self.namespace for each in self._plugin.assignments())

    def create(self, *pods: dict[str, Any]) -> None:
        """Create all of the pods."""
        for pod in pods:
            self._core.create_namespaced_pod(self.namespace, pod)

    def insist(self, *pods: dict[str, Any]) -> None:
        """Wait until all pods run; make a failed one again, since a deleted pod may hold its slot a while longer."""
        self.create(*pods)

        def all_run() -> bool:
            failed = self.failures()
            self.delete(*failed)
            self.create(*(pod for pod in pods if pod["metadata"]["name"] in failed))
            phases = self.phases()
            return all(phases.get(pod["metadata"]["name"]) == "Running" for pod in pods)

        wait_until(all_run, what="all pods run", seconds=120)

    def delete(self, *pods: str) -> None:
        """Delete at once."""
        for pod in pods:
            self._core.delete_namespaced_pod(pod, self.namespace, grace_period_seconds=0)

    def delete_all(self) -> None:
        """Delete all pods, and return when none is left."""
        self._core.delete_collection_namespaced_pod(self.namespace, grace_period_seconds=0)
        wait_until(lambda: not self.phases(), what="all pods are gone", seconds=120)

    def phases(self) -> dict[str, str]:
        """Return each pod's phase."""
        pods = self._core.list_namespaced_pod(self.namespace, resource_version="0").items
        return {pod.metadata.name: pod.status.phase for pod in pods}

    def failures(self) -> dict[str, str]:
        """Return why each failed pod failed."""
        pods = self._core.list_namespaced_pod(self.namespace).items
        return {
            pod.metadata.name: f"{pod.status.reason}: {pod.status.message}"
            for pod in pods
            if pod.status.phase == "Failed"
        }

    def wait_for(self, phase: str, pods: Iterable[str] = (), *, seconds: float = 120.0) -> None:
        """Wait until the named pods, or all, are in the phase."""

        def are_there() -> bool:
            phases = self.phases()
            wanted = list(pods) or list(phases)
            return all(phases.get(name) == phase for name in wanted)

        wait_until(are_there, what=f"pods are {phase}", seconds=seconds)

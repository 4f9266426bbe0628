"""Both processes as on a node: allocation folders, a kubelet, a real API server, the software GPU's NVML.

From the socket that a container reaches to the annotations in its welcome, and from a turn not given back to the event
on its pod.
"""

import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import kubernetes
import psutil
import pytest

from contract.wire.load import QUERY, Load, decode_load
from schedulerd.control.client import ControlClient
from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.pod_resources import FakePodResources, listing
from tests.fakes.wire.client import PATIENCE, Client
from tests.fakes.wire.node_daemon import NodeDaemon
from tests.fakes.wire.observed_daemon import observer_of

ROOT = Path(__file__).parents[3]
NODE = "node-of-turns"


def until(said: Any, within: float = PATIENCE) -> Any:
    end = time.monotonic() + within
    while not (found := said()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.1)
    return found


def both(folder: Path, *flags: str) -> NodeDaemon:
    """Start the daemon with its observer; the flags that come last count."""
    daemon = NodeDaemon(folder, "--observer=spawn", "--metrics-port=0", "--side-by-side=never", *flags)
    daemon.start()
    return daemon


def page_of(daemon: NodeDaemon) -> str:
    observer = observer_of(daemon.running.pid)
    port = next(one.laddr.port for one in observer.net_connections() if one.status == psutil.CONN_LISTEN)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def a_pod(name: str, annotations: dict[str, str]) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "none"}]},
    }


@pytest.mark.cluster
def test_a_pods_annotations_reach_the_welcome_and_its_overdue_turn_becomes_its_event(
    tmp_path: Path, api_server: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig_for("scheduler", groups=("system:masters",))))
    core = kubernetes.client.CoreV1Api(api_server.client())
    core.create_namespaced_pod(namespace, a_pod("train", {"nvshare.com/memory": "4Gi", "nvshare.com/weight": "300"}))
    fake = FakePodResources(tmp_path / "kubelet.sock")
    fake.pods = listing("GPU-1__0")
    fake.pods[0].namespace = namespace
    daemon = both(tmp_path, f"--node={NODE}", f"--pod-resources={tmp_path}/kubelet.sock", "--grace=200ms")
    try:
        observer_of(daemon.running.pid)
        until(lambda: "nvshare_schedulerd_pod_watch_up 1" in page_of(daemon))
        deaf = Client(daemon.allocate("k1", "GPU-1"), container="x", hello=False)
        welcome = deaf.hello()
        deaf.want()
        deaf.hear("grant")
        other = Client(daemon.allocate("k2", "GPU-1"), container="y", hello=False)
        other.hello()
        other.want()
        deaf.until("revoked")
        other.until("grant")

        assert welcome.words["memory"] == str(4 << 30)
        events = until(lambda: core.list_namespaced_event(namespace).items)
        assert (events[0].reason, events[0].involved_object.name) == ("GpuTurnOverdue", "train")
        assert 'pod="train",container="main"' in page_of(daemon)
    finally:
        daemon.end()
        fake.stop()


@pytest.fixture
def software_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(ROOT / "build/simgpu"))
    monkeypatch.setenv("SIMGPU_FILE", str(tmp_path / "gpus"))
    monkeypatch.setenv("SIMGPU_DEVICES", "1xT4-16GB")
    return dict(os.environ)


@pytest.mark.slow
def test_what_nvml_says_reaches_the_load_and_who_takes_no_turns_is_counted(
    tmp_path: Path, software_gpu: dict[str, str]
) -> None:
    daemon = both(tmp_path)
    stranger = subprocess.Popen(
        [ROOT / "build/simgpu/burn", "--seconds", "60", "--kernel-ms", "5", "--quiet"], env=software_gpu
    )
    try:
        (gpu,) = until(lambda: load_of(daemon).gpus)
        assert gpu.memory_total == 16 << 30
        assert gpu.temperature is not None
        line = f'nvshare_schedulerd_gpu_unknown_processes{{gpu="{gpu.uuid}"}} 1'
        until(lambda: line in page_of(daemon))
    finally:
        stranger.kill()
        stranger.wait()
        daemon.end()


def load_of(daemon: NodeDaemon) -> Load:
    with ControlClient(daemon.control) as client:
        client._socket.sendall(QUERY)
        return decode_load(iter(client._file.readline, b""))

"""The node: real pods, and everything `kubectl` can do with them."""

import re
import subprocess
import threading
from collections.abc import Iterator

import pytest
import urllib3
import yaml

from testbed.cluster import pins
from testbed.cluster.kubernetes.node import Node
from testbed.cluster.machine.processes import wait_until

WEB = "mkdir /www; echo hello from $0 > /www/index.html; echo serving; exec httpd -f -p 8080 -h /www"


def yaml_of(*objects: dict[str, object]) -> str:
    return yaml.safe_dump_all(objects)


def busybox_pod(name: str, script: str, *, restart: str = "Never") -> dict[str, object]:
    container = {
        "name": "main",
        "image": pins.BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script, name],
    }
    about = {"name": name, "labels": {"app": name}}
    spec = {"containers": [container], "restartPolicy": restart, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def service(name: str) -> dict[str, object]:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def web(node: Node, namespace: str) -> Iterator[str]:
    """Run a pod that serves its name behind a service, and return their namespace."""
    node.plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml_of(busybox_pod("web", WEB), service("web")))
    node.plane.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/web", "--timeout=180s")
    yield namespace
    node.plane.kubectl("delete", "pod", "web", "-n", namespace, "--wait=false")


def test_it_is_a_ready_node_of_the_pinned_versions(node: Node) -> None:
    about = node.plane.core.read_node(node.name).status.node_info

    assert about.kubelet_version == f"v{pins.KUBERNETES}"
    assert about.container_runtime_version == f"containerd://{pins.CONTAINERD}"


def test_a_pod_runs_to_its_end_and_its_words_can_be_read(node: Node, namespace: str) -> None:
    node.plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml_of(busybox_pod("once", "echo said; id -u")))
    node.plane.kubectl(
        "wait", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "pod/once", "--timeout=180s"
    )

    assert node.plane.kubectl("logs", "-n", namespace, "once") == "said\n0\n"


def test_logs_and_exec_reach_a_running_pod(node: Node, web: str) -> None:
    assert node.plane.kubectl("logs", "-n", web, "web") == "serving\n"
    assert node.plane.kubectl("exec", "-n", web, "web", "--", "cat", "/www/index.html") == "hello from web\n"


def test_a_service_is_reached_from_a_pod_and_from_the_api_servers_side(node: Node, web: str) -> None:
    core = node.plane.core
    address = core.read_namespaced_service("web", web).spec.cluster_ip
    from_pod = ("exec", "-n", web, "web", "--", "timeout", "2", "wget", "-qO-", f"http://{address}/")
    # a first try may go out before kube-proxy has written the service's rules
    wait_until(lambda: "hello" in node.plane.kubectl(*from_pod, check=False), what="the service answers", seconds=120)

    # webhooks whose clientConfig names a service are called this way
    assert urllib3.request("GET", f"http://{address}/", timeout=5).data == b"hello from web\n"


def test_port_forward_reaches_a_pod(node: Node, web: str) -> None:
    command = node.plane.kubectl_command("port-forward", "-n", web, "pod/web", ":8080")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        reaper = threading.Timer(30, forward.kill)  # a forward that says nothing would be read for ever
        reaper.start()
        assert forward.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
        assert port is not None
        answer = urllib3.request("GET", f"http://127.0.0.1:{port[1]}/", timeout=5).data
        reaper.cancel()
        forward.terminate()

    assert answer == b"hello from web\n"


def test_a_pod_has_its_service_account_and_the_api_servers_address(node: Node, web: str) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    token = node.plane.kubectl("exec", "-n", web, "web", "--", "cat", f"{folder}/token")
    who = node.plane.kubectl("--token", token, "auth", "whoami", kubeconfig=node.plane.anonymous_kubeconfig)

    assert f"system:serviceaccount:{web}:default" in who
    variables = node.plane.kubectl("exec", "-n", web, "web", "--", "env")
    assert "KUBERNETES_SERVICE_HOST=10." in variables


def test_pods_outlive_a_restart_of_the_kubelet(node: Node, web: str) -> None:
    core = node.plane.core
    before = core.read_namespaced_pod("web", web).status.container_statuses[0].container_id
    node.kubelet.process.restart()
    # what shows that the new kubelet works is that it serves: exec goes through it
    words = ("exec", "-n", web, "web", "--", "echo", "back")
    wait_until(lambda: node.plane.kubectl(*words, check=False) == "back\n", what="the kubelet serves", seconds=120)

    assert core.read_namespaced_pod("web", web).status.container_statuses[0].container_id == before


def test_pods_are_in_the_nodes_own_control_group(node: Node, web: str) -> None:
    groups = node.plane.kubectl("exec", "-n", web, "web", "--", "cat", "/proc/self/cgroup")

    assert f"guard-{node.plane.run.name}-{node.name}/kubepods/besteffort/pod" in groups

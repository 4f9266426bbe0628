"""The control plane: a real API server without root, several at once, and what tests ask of it."""

import socket

import kubernetes.client
import pytest

from testbed.cluster import pins
from testbed.cluster.kubernetes import control_plane as control_plane_module
from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from testbed.cluster.machine.processes import free_ports

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "plain"},
    "spec": {"containers": [{"name": "main", "image": "any", "imagePullPolicy": "Never"}]},
}


def test_it_is_the_pinned_kubernetes(api_server: ControlPlane) -> None:
    version = kubernetes.client.VersionApi(api_server.client()).get_code()

    assert version.git_version == f"v{pins.KUBERNETES}"


def test_a_pod_can_be_created_in_a_fresh_namespace(api_server: ControlPlane, namespace: str) -> None:
    core = api_server.core
    core.create_namespaced_pod(namespace, POD)

    assert core.read_namespaced_pod("plain", namespace).spec.service_account_name == "default"


def test_a_test_can_be_any_user(api_server: ControlPlane) -> None:
    alice = api_server.kubeconfig_for("alice", groups=("devs",))

    assert api_server.kubectl("auth", "can-i", "create", "pods", kubeconfig=alice, check=False).startswith("no")


def test_every_request_is_in_the_audit_log(api_server: ControlPlane, namespace: str) -> None:
    made = [event for event in api_server.audit_events() if event["verb"] == "create"]

    assert namespace in {event["objectRef"].get("name") for event in made}


@pytest.mark.slow
def test_two_run_side_by_side_with_their_own_options(api_server: ControlPlane) -> None:
    always_pull = Options(enable_admission=("AlwaysPullImages",), runtime_config=("resource.k8s.io/v1beta2=true",))
    with control_plane(always_pull) as other:
        core = other.core
        pod = core.create_namespaced_pod(other.create_namespace("any"), POD)

        assert pod.spec.containers[0].image_pull_policy == "Always"
        assert "resource.k8s.io/v1beta2" in other.kubectl("api-versions")
        assert "resource.k8s.io/v1beta2" not in api_server.kubectl("api-versions")
        assert other.url != api_server.url
    assert not other.run.folder.exists()
    assert not other.is_ready()


@pytest.mark.slow
def test_a_port_that_another_program_takes_meanwhile_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offers = iter([[20001], [taken.getsockname()[1], 20002]])
        monkeypatch.setattr(
            control_plane_module, "free_ports", lambda *wanted: next(offers, None) or free_ports(*wanted)
        )
        with control_plane() as plane:
            assert plane.is_ready()


@pytest.mark.slow
def test_controllers_and_scheduler_come_on_request() -> None:
    with control_plane(Options(controllers=True, scheduler=True)) as plane:
        plane.kubectl("create", "deployment", "web", "--image=any")
        plane.kubectl("wait", "--for=create", "pod", "-l", "app=web", "--timeout=180s")
        unscheduled = "--for=jsonpath={.status.conditions[0].reason}=Unschedulable"

        plane.kubectl("wait", unscheduled, "pod", "-l", "app=web", "--timeout=180s")

"""The manifests: least privilege, hardened, complete, accepted by a real API server, and true to the programs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from adapters import driver_files
from contract.words import names, paths
from testbed.cluster.errors import MissingError
from testbed.cluster.kubernetes.control_plane import ControlPlane
from testbed.cluster.supplies import debian
from tests.plugins.kubernetes import NewNamespace, unavailable
from tests.system.manifests.kustomized import (
    OVERLAYS,
    ROOT,
    SAMPLES,
    Object,
    objects,
    of_kind,
    pod_templates,
    rendered,
)

pytestmark = pytest.mark.cluster
ALL = ["base", *OVERLAYS]
NODE_DAEMONS = {"nvshare-device-plugin", "nvshare-schedulerd"}
SHARED_FOLDERS = {
    "ours": paths.NODE_ROOT,
    "device-plugins": paths.KUBELET_PLUGINS,
    "pod-resources": str(Path(paths.POD_RESOURCES_SOCKET).parent),
    "cdi": paths.CDI_SPECS,
    "static-cdi": paths.STATIC_CDI_SPECS,
    "admin": paths.NODE_ADMIN_FOLDER,
}


# ---------------------------------------------------------------------------------------------- rights
def test_no_role_has_a_wildcard() -> None:
    for role in of_kind(objects(), "Role", "ClusterRole"):
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule.get("resources", ()), *rule["verbs"]]
            assert not any("*" in word for word in words), role["metadata"]["name"]


def test_a_secret_is_read_by_name_only() -> None:
    for role in of_kind(objects(), "Role", "ClusterRole"):
        for rule in role["rules"]:
            if "secrets" in rule.get("resources", ()) and rule["verbs"] != ["create"]:
                assert role["kind"] == "Role"
                assert rule["resourceNames"] == ["nvshare-webhook-tls"]


def test_every_workload_has_a_service_account_of_its_own() -> None:
    found = objects()
    used = [template["spec"]["serviceAccountName"] for _, template in pod_templates(found)]
    accounts = [item["metadata"]["name"] for item in of_kind(found, "ServiceAccount")]

    assert sorted(used) == sorted(set(used)) == sorted(accounts)


def test_every_binding_names_a_role_and_an_account_that_exist() -> None:
    found = objects()
    known = {(item["kind"], item["metadata"]["name"]) for item in found}
    for binding in of_kind(found, "RoleBinding", "ClusterRoleBinding"):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in known
        for subject in binding["subjects"]:
            assert (subject["kind"], subject["name"]) in known
            assert subject["namespace"] == names.SYSTEM_NAMESPACE


# ---------------------------------------------------------------------------------------------- hardening
@pytest.mark.parametrize("name", ALL)
def test_every_container_is_hardened(name: str) -> None:
    for workload, template in pod_templates(objects(name)):
        spec = template["spec"]
        assert spec["priorityClassName"] == "nvshare-system"
        for container in spec["containers"]:
            security = {**spec.get("securityContext", {}), **container["securityContext"]}
            assert security["readOnlyRootFilesystem"], workload
            if name == "driver-root" and workload in NODE_DAEMONS:
                continue  # the next test says what they have instead
            assert security["allowPrivilegeEscalation"] is False, workload
            assert security["capabilities"] == {"drop": ["ALL"]}, workload
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}, workload
            assert container["resources"]["requests"], workload
            assert "cpu" not in container["resources"]["limits"], "a throttled webhook times out"


def test_with_the_drivers_root_the_node_daemons_are_privileged_and_read_the_node_only() -> None:
    for workload, template in pod_templates(objects("driver-root")):
        spec, (container,) = template["spec"], template["spec"]["containers"]
        mounts = [mount for mount in container.get("volumeMounts", ()) if mount["name"] == "node-root"]
        assert bool(mounts) is container["securityContext"].get("privileged", False) is (workload in NODE_DAEMONS)
        for mount in mounts:
            assert Path(mount["mountPath"]) == driver_files.NODE_MOUNT
            assert (mount["readOnly"], mount["mountPropagation"]) == (True, "HostToContainer")
            assert {"name": "node-root", "hostPath": {"path": "/"}} in spec["volumes"]
            assert not [entry for entry in container["env"] if entry["name"].startswith("NVIDIA_")]


def test_only_one_component_names_a_runtime_class_and_for_the_node_daemons_only() -> None:
    for name in ALL:
        named = {workload for workload, pod in pod_templates(objects(name)) if "runtimeClassName" in pod["spec"]}
        assert named == (NODE_DAEMONS if name == "gpu-operator" else set())


@pytest.mark.parametrize("name", ALL)
def test_every_long_running_container_has_a_startup_or_readiness_probe(name: str) -> None:
    for item in of_kind(objects(name), "Deployment", "DaemonSet"):
        for container in item["spec"]["template"]["spec"]["containers"]:
            assert {"startupProbe", "readinessProbe"} & set(container), item["metadata"]["name"]


@pytest.mark.parametrize("name", ALL)
def test_no_other_pod_can_make_a_probe_of_a_node_daemon_fail(name: str) -> None:
    # Other pods can keep a port busy until the kubelet restarts the container; a command in the container cannot be
    # kept busy.
    for item in of_kind(objects(name), "DaemonSet"):
        for container in item["spec"]["template"]["spec"]["containers"]:
            probes = [value for key, value in container.items() if key.endswith("Probe")]
            assert len(probes) >= 2
            assert all("exec" in probe for probe in probes), item["metadata"]["name"]


def test_the_webhooks_pods_pass_pod_security_restricted(api_server: ControlPlane, new_namespace: NewNamespace) -> None:
    namespace = new_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    for workload, template in pod_templates(objects()):
        spec = {**template["spec"], "serviceAccountName": "default", "restartPolicy": "Never"}
        spec.pop("priorityClassName")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": workload}, "spec": spec}
        said = api_server.kubectl(
            "create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(pod), check=False
        )
        assert ("created" in said) is workload.startswith("nvshare-webhook"), said


# ------------------------------------------------------------------------------------------ what the parts are called
def test_the_webhook_is_reached_at_the_name_its_certificate_carries() -> None:
    found = objects()
    service = next(item for item in of_kind(found, "Service") if item["metadata"]["name"] == "nvshare-webhook")
    (port,) = service["spec"]["ports"]
    entries = [
        entry
        for item in of_kind(found, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for entry in item["webhooks"]
    ]

    assert len(entries) >= 2
    for entry in entries:
        called = entry["clientConfig"]["service"]
        assert (called["name"], called["namespace"]) == ("nvshare-webhook", names.SYSTEM_NAMESPACE)
        assert called.get("port", 443) == port["port"]
        assert "caBundle" not in entry["clientConfig"], "the rotation owns that field"
        assert entry["failurePolicy"] == "Fail"
        assert entry["timeoutSeconds"] <= 5
        assert entry["matchConditions"], "a plain pod must never meet the webhook"
    assert port["name"] == "webhook", "the rotation dials the endpoints' port of that name"


def test_services_and_budgets_select_the_pods_they_mean() -> None:
    found = objects()
    labels = {name: template["metadata"]["labels"] for name, template in pod_templates(found)}
    for item in of_kind(found, "Service"):
        selector = item["spec"]["selector"]
        assert [name for name in labels if selector.items() <= labels[name].items()] == [
            item["metadata"]["name"].removesuffix("-metrics")
        ]
    (budget,) = of_kind(found, "PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels["nvshare-webhook"].items()


def test_the_node_daemons_mount_the_contracts_paths_and_surge_never() -> None:
    for item in of_kind(objects(), "DaemonSet"):
        spec = item["spec"]["template"]["spec"]
        assert item["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
        assert spec["affinity"]["nodeAffinity"], "GPU nodes only"
        mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
        for volume in spec["volumes"]:
            if "hostPath" in volume:
                assert volume["hostPath"]["path"] == SHARED_FOLDERS[volume["name"]] == mounts[volume["name"]]


@pytest.mark.parametrize("name", ALL)
def test_the_programs_know_every_flag_that_the_manifests_give_them(name: str) -> None:
    for workload, template in pod_templates(objects(name)):
        for container in template["spec"]["containers"]:
            command = [*container["command"], *container.get("args", ())]
            given = {word.partition("=")[0] for word in command if word.startswith("--")}
            words = [word for word in command if not word.startswith("-")]
            assert given <= flags_of(words), f"{workload}: {shlex.join(command)}"


def flags_of(words: list[str]) -> set[str]:
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run([program, *words[1:], "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout))


# ---------------------------------------------------------------------------------------------- a real API server
@pytest.mark.parametrize("name", ALL)
def test_a_real_api_server_accepts_every_object_without_a_warning(api_server: ControlPlane, name: str) -> None:
    found = objects(name)
    if name == "hide-gpus":
        found = [item for item in found if "Mutating" not in item["kind"] or item["kind"].endswith("Configuration")]
    with_namespace(api_server)
    said = api_server.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(found), check=False
    )

    assert "Warning" not in said
    assert "error" not in said.lower()
    assert said.count("(server dry run)") == len(found)


def with_namespace(plane: ControlPlane) -> None:
    """Make the namespace first, since a dry run makes none for the objects after it."""
    (namespace,) = of_kind(objects(), "Namespace")
    plane.apply(namespace)


# ---------------------------------------------------------------------------------------------- the doctor
def doctors_job() -> Object:
    (job,) = yaml.safe_load_all(rendered(ROOT / "doctor"))
    return dict(job)


def test_the_doctor_has_the_plugins_mounts_and_account_and_reads_the_node_only() -> None:
    doctor = doctors_job()["spec"]["template"]["spec"]
    (plugin,) = (pod["spec"] for name, pod in pod_templates(objects()) if name == "nvshare-device-plugin")
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in doctor["containers"][0]["volumeMounts"]}
    places = {volume["name"]: volume["hostPath"]["path"] for volume in doctor["volumes"] if "hostPath" in volume}

    assert doctor["serviceAccountName"] == plugin["serviceAccountName"]
    assert {mount["mountPath"] for mount in plugin["containers"][0]["volumeMounts"]} <= set(mounts)
    assert mounts[str(driver_files.NODE_MOUNT)] is True
    assert {name: places.pop(name) for name in SHARED_FOLDERS} == SHARED_FOLDERS
    assert places == {"node-root": "/"}
    assert flags_of(doctor["containers"][0]["command"]) >= {"--json"}


def test_a_real_api_server_accepts_the_doctors_job(api_server: ControlPlane) -> None:
    with_namespace(api_server)
    said = api_server.kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=yaml.safe_dump(doctors_job()), check=False
    )

    assert said == "job.batch/nvshare-doctor created (server dry run)\n"


# ---------------------------------------------------------------------------------------------- samples
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_what_its_first_line_says(path: Path) -> None:
    program = Path(sys.executable).with_name("nvshare-webhook")
    command = [str(program), "check", "-f", str(path), "--injection", "enabled"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    says_refused = path.read_text().startswith("# Refused")
    assert done.returncode == (1 if says_refused else 0), done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------- alerts
@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        debian.ensure({"promtool": "prometheus"}, say=print)
    except MissingError as error:
        unavailable(error)
    folder = tmp_path_factory.mktemp("rules")
    rule = yaml.safe_load((ROOT / "monitoring" / "prometheus-rule.yaml").read_text())
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    (folder / "rules_test.yaml").write_text(Path(__file__).with_name("rules_test.yaml").read_text())
    return folder


@pytest.mark.parametrize("command", [("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml")])
def test_prometheus_itself_accepts_the_alerts_and_they_say_what_they_should(
    rules: Path, command: tuple[str, ...]
) -> None:
    done = subprocess.run(["promtool", *command], cwd=rules, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_names_a_chapter_of_the_runbooks_that_exists() -> None:
    rule = yaml.safe_load((ROOT / "monitoring" / "prometheus-rule.yaml").read_text())
    text = (ROOT.parent / "docs" / "runbooks.md").read_text()
    chapters = {anchor(line) for line in text.splitlines() if line.startswith("#")}
    for group in rule["spec"]["groups"]:
        for alert in group["rules"]:
            assert alert["annotations"]["runbook"].partition("#")[2] in chapters, alert["alert"]


def anchor(heading: str) -> str:
    """Return the anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")

"""The whole story on a real node: pods through the real webhook, kubelet, device plugin, hook and scheduler."""

import re
from collections.abc import Callable

import pytest
import yaml

from contract.words import names, node, paths
from testbed.cluster.installed import GPUS, IMAGE, MANIFESTS, SYSTEM, House, Object, Wish, pod
from testbed.cluster.machine.processes import wait_until
from testbed.demo.cluster import read_bars
from testbed.demo.drawing import overlap_seconds
from tests.system.install.bypasses import OPTED_IN

pytestmark = [pytest.mark.node, pytest.mark.slow]
BIG = ("burn", "--kernel-ms", "5", "--managed-mb", "30000", "--seconds", "8", "--quiet")
"""More than half of a card: two of them never fit side by side, so that turns must be exclusive."""
Room = Callable[..., str]


# ---------------------------------------------------------------------------------------------- the node
def test_the_doctor_in_the_plugins_pod_finds_nothing_wrong(house: House) -> None:
    said = house.kubectl("-n", SYSTEM, "exec", "ds/nvshare-device-plugin", "--", "nvshare-device-plugin", "doctor")

    assert said.splitlines()[-1].startswith("All is well: "), said
    assert "OK       nvml            NVML is /opt/simgpu/lib/libnvidia-ml.so.1 (found by the loader)" in said
    assert f"OK       slots           The Node offers {GPUS * names.SLOTS_PER_GPU} {names.RESOURCE}." in said


def test_the_doctors_job_sees_the_node_and_fails_where_something_is_missing(house: House) -> None:
    job = yaml.safe_load(house.kubectl("kustomize", str(MANIFESTS / "doctor")))
    spec = job["spec"]["template"]["spec"]
    spec.pop("affinity")  # a node of software GPUs has no label of NVIDIA's
    spec["volumes"].append({"name": "simgpu", "hostPath": {"path": "/run/simgpu"}})
    (container,) = spec["containers"]
    container |= {"image": IMAGE, "imagePullPolicy": "Never"}
    container["env"].append({"name": "SIMGPU_FILE", "value": "/run/simgpu/gpus"})
    container["volumeMounts"].append({"name": "simgpu", "mountPath": "/run/simgpu"})
    try:
        house.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
        house.kubectl("-n", SYSTEM, "wait", "--for=condition=failed", "--timeout=90s", "job/nvshare-doctor")
        said = house.kubectl("-n", SYSTEM, "logs", "job/nvshare-doctor")
    finally:
        house.kubectl("-n", SYSTEM, "delete", "job", "nvshare-doctor", "--ignore-not-found")

    faults = [line for line in said.splitlines() if line.startswith(("MISSING", "WRONG"))]
    assert "OK       nvml " in said
    # a software GPU has neither nodes nor specs, and its node no runtime of NVIDIA's
    assert {line.split()[1] for line in faults} - {"device-source"} == {"device-nodes"}, said
    assert "MISSING  device-nodes    /dev/nvidiactl is not on the node." in said


# ---------------------------------------------------------------------------------------------- one pod
def test_a_pod_with_one_vgpu_runs_under_the_hook_with_a_socket_of_its_own(house: House, team: str) -> None:
    house.start(team, pod("one"))

    spec = house.json("get", "pod", "one", "-n", team)
    maps = house.execute(team, "one", "cat", "/proc/1/maps")
    assert names.INJECTED in spec["metadata"]["annotations"]
    assert paths.CONTAINER_HOOK in maps
    assert house.execute(team, "one", "sh", "-c", f"test -S {paths.CONTAINER_OWN_SOCKET} && echo there") == "there\n"
    assert len(house.uuids(team, "one")) == 1


def test_a_pod_that_names_no_mode_is_refused_with_the_sentence_that_fixes_it(house: House, team: str) -> None:
    said = house.create(team, pod("two", Wish(gpus=2)))

    assert "MultiGpuWithoutMode" in said
    assert "nvshare.com/multi-gpu: gang" in said
    house.start(team, pod("two", Wish(gpus=2, annotations={names.MULTI_GPU: "gang"})))
    assert len(set(house.uuids(team, "two"))) == 2


def test_messages_about_a_pod_follow_its_namespace(house: House, room: Room) -> None:
    wanted = pod("two", Wish(gpus=2))
    said = {
        "enabled": house.create(room(labels=OPTED_IN), wanted),
        "warn": house.create(room(labels={names.INJECTION_LABEL: "warn"}), wanted),
        "not opted in": house.create(room(), wanted),
        "reduce": house.create(room(labels=OPTED_IN, annotations={names.ON_MULTI_GPU: "reduce"}), wanted),
    }

    assert "MultiGpuWithoutMode" in said["enabled"]
    assert "created" not in said["enabled"]
    assert re.search(r"Warning: .*MultiGpuWithoutMode", said["warn"])
    assert "InjectionLost" not in said["warn"]
    assert "created" in said["warn"]
    assert "created" not in said["not opted in"]
    assert names.INJECTION_LABEL in said["not opted in"]
    assert "created" in said["reduce"]
    assert "Warning" in said["reduce"]


def test_a_pod_without_a_vgpu_is_not_touched(house: House, team: str) -> None:
    plain = pod("plain", Wish(gpus=0, command=("sleep", "60")))
    house.start(team, plain)

    assert names.INJECTED not in (house.json("get", "pod", "plain", "-n", team)["metadata"].get("annotations") or {})
    assert paths.CONTAINER_HOOK not in house.execute(team, "plain", "cat", "/proc/1/maps")


# ---------------------------------------------------------------------------------------------- where they land
def test_pods_spread_over_the_gpus_evenly(house: House, team: str) -> None:
    count = 2 * GPUS
    house.start(team, *(pod(f"p{number}", Wish(command=("sleep", "600"))) for number in range(count)))

    landed = [house.uuids(team, f"p{number}")[0] for number in range(count)]
    assert sorted(landed.count(uuid) for uuid in set(landed)) == [2] * GPUS


def test_a_gang_and_a_per_device_pod_run_side_by_side_and_never_two_at_once(house: House, team: str) -> None:
    command = (*BIG, "--devices", "0,1")
    gang = pod("gang", Wish(gpus=2, command=(*command, "--together", "2"), annotations={names.MULTI_GPU: "gang"}))
    each = pod("each", Wish(gpus=2, command=command, annotations={names.MULTI_GPU: "per-device"}))
    singles = [pod(f"single{number}", Wish(command=BIG)) for number in range(GPUS)]
    house.start(team, gang, each, *singles)
    for wanted in (gang, each, *singles):
        house.wait_phase(team, wanted["metadata"]["name"], ("Succeeded",), seconds=120)

    bars = read_bars(house, [wanted["metadata"]["name"] for wanted in (gang, each, *singles)])
    assert {bar.who for bar in bars} == {wanted["metadata"]["name"] for wanted in (gang, each, *singles)}
    assert overlap_seconds(bars) == 0.0


def test_the_scheduler_knows_pods_by_name(house: House, team: str) -> None:
    house.start(team, pod("known"))

    wait_until(lambda: f"{team}/known" in house.schedulerd("nvsharectl", "status"), what="status names it", seconds=30)


# ---------------------------------------------------------------------------------------------- restricted
def restricted(name: str, **further: object) -> dict[str, object]:
    wish = Wish(
        spec={
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
        },
        container={
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            **further,
        },
    )
    return pod(name, wish)


def test_in_a_restricted_namespace_hook_and_socket_come_with_the_allocation(house: House, room: Room) -> None:
    namespace = room(labels={**OPTED_IN, "pod-security.kubernetes.io/enforce": "restricted"})
    house.start(namespace, restricted("careful"))

    spec = house.json("get", "pod", "careful", "-n", namespace)["spec"]
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    assert paths.CONTAINER_HOOK in house.execute(namespace, "careful", "cat", "/proc/1/maps")
    wait_until(
        lambda: f"{namespace}/careful" in house.schedulerd("nvsharectl", "status"), what="it takes turns", seconds=30
    )


# ---------------------------------------------------------------------------------------------- samples
RUNNING_SAMPLES = [
    path
    for path in sorted((MANIFESTS / "samples").glob("*.yaml"))
    if not path.read_text().startswith("# Refused") and re.search("^kind: (Pod|Job)$", path.read_text(), re.MULTILINE)
]


def test_every_sample_pod_runs_to_its_end_as_it_stands(house: House) -> None:
    house.kubectl("apply", "-f", str(MANIFESTS / "samples" / "namespaces.yaml"))
    begun: list[Object] = []
    try:
        for path in RUNNING_SAMPLES:
            house.kubectl("apply", "-f", str(path))
            documents = yaml.safe_load_all(path.read_text())
            begun += [each for each in documents if each["kind"] in ("Pod", "Job")]
        for each in begun:
            _wait_for_the_end(house, each)
    finally:
        for namespace in ("team-a", "team-trying", "team-plain", "team-restricted", "team-bounded"):
            house.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


def _wait_for_the_end(house: House, begun: Object) -> None:
    about = begun["metadata"]
    if begun["kind"] == "Pod":
        house.wait_phase(about["namespace"], about["name"], ("Succeeded",), seconds=180)
    else:
        job = ("-n", about["namespace"], f"job/{about['name']}", "--timeout=180s")
        house.kubectl("wait", "--for=condition=Complete", *job)


# ---------------------------------------------------------------------------------------------- the parts' own words
def test_certificates_are_as_they_should_be(house: House) -> None:
    said = house.kubectl("-n", SYSTEM, "exec", "deploy/nvshare-webhook", "--", "nvshare-webhook", "certs", "status")

    assert said.startswith("phase          settled")
    assert "trouble" not in said
    assert said.count("serves the certificate") == 2


def test_the_node_tells_its_gpus(house: House) -> None:
    about = house.json("get", "node", house.node.name)["metadata"]

    assert about["labels"][node.COUNT] == str(GPUS)
    assert node.FREE_SLOTS in about["annotations"]

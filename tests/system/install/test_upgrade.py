"""Upgrades in place and uninstalling: running pods are left alone, and nothing is left behind."""

from pathlib import Path

import pytest
import yaml

from testbed.cluster.errors import MissingError
from testbed.cluster.installed import COMPONENTS, MANIFESTS, SYSTEM, House, empty_house, pod
from testbed.cluster.machine.processes import wait_until
from tests.plugins.kubernetes import unavailable

pytestmark = [pytest.mark.node, pytest.mark.slow]


def next_version(folder: Path) -> Path:
    """Make version n+1: every component's pods differ, so that all of them roll."""
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(Path("base"))],
        "commonAnnotations": {"nvshare-guard/version": "next"},
    }
    # kustomize takes relative folders only
    (folder / "base").symlink_to(MANIFESTS / "overlays" / "simgpu")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def restarts(house: House, namespace: str) -> dict[str, int]:
    pods = house.json("get", "pods", "-n", namespace)["items"]
    return {
        each["metadata"]["name"]: sum(status["restartCount"] for status in each["status"]["containerStatuses"])
        for each in pods
        if each["status"]["phase"] == "Running"
    }


def test_upgrade_over_running_pods_then_uninstall_leaves_no_trace(tmp_path: Path) -> None:
    try:
        with empty_house() as house:
            _live_through_it(house, tmp_path)
    except MissingError as error:
        unavailable(error)


def _live_through_it(house: House, folder: Path) -> None:
    namespace = house.plane.create_namespace("team", labels={"nvshare.com/injection": "enabled"})
    before = house.listing()
    house.apply()
    house.wait_ready()
    house.start(namespace, *(pod(f"steady{number}") for number in range(3)))
    running = restarts(house, namespace)
    bundle = trusted(house)
    old = component_pods(house)

    house.kubectl("apply", "-k", str(next_version(folder)))
    house.wait_ready()

    wait_until(lambda: not old & component_pods(house), what="every component's pod was replaced", seconds=60)
    assert trusted(house) == bundle, "the apply left the CA alone"
    assert restarts(house, namespace) == running
    house.start(namespace, pod("newcomer"))

    house.kubectl("delete", "-k", str(folder), "--wait=true")
    wait_until(lambda: _ours_are_gone(house), what="the namespace is gone", seconds=90)

    assert set(restarts(house, namespace)) == {*running, "newcomer"}, "uninstalling killed a running pod"
    house.delete_pods(namespace)
    wait_until(lambda: house.listing() <= before, what="nothing of ours is left", seconds=60)
    assert before <= house.listing()


def trusted(house: House) -> str:
    entry = "{.webhooks[0].clientConfig.caBundle}"
    return house.kubectl("get", "mutatingwebhookconfiguration", "nvshare-webhook", "-o", f"jsonpath={entry}")


def component_pods(house: House) -> set[str]:
    names = [component.partition("/")[2] for component in COMPONENTS]
    said = house.kubectl(
        "get", "pods", "-n", SYSTEM, "-o", "name", "-l", f"app.kubernetes.io/name in ({','.join(names)})"
    )
    return set(said.split())


def _ours_are_gone(house: House) -> bool:
    return "nvshare-system" not in house.kubectl("get", "namespaces", "-o", "name")

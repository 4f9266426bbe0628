"""Every case file on a real API server: with the policies alone, and with the webhook before them."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from tests.webhook.cases import CASES, Case
from tests.webhook.real import (
    Answer,
    ApiClient,
    Server,
    all_policies,
    installed,
    registered,
    serving,
    wait_for_policies,
)
from webhook.admission.json_fields import Json
from webhook.admission.rules import POD_RULES
from webhook.admission.rules.pod_kind import NVIDIA_RUNTIMES

pytestmark = pytest.mark.cluster


def namespace_for(case: Case) -> str:
    """Return the name of the namespace that all cases with the same description share."""
    if "name" in case.namespace:
        return str(case.namespace["name"])
    about = json.dumps(case.namespace_object["metadata"], sort_keys=True)
    return "case-" + hashlib.sha256(about.encode()).hexdigest()[:10]


@dataclass
class Cluster:
    plane: ControlPlane
    client: ApiClient


@pytest.fixture(scope="module")
def prepared() -> Iterator[Cluster]:
    """Start an API server, create the namespace of every case, then the policies, which would refuse some of them."""
    with control_plane(Options()) as plane:
        client = ApiClient(plane)
        made = {"kube-system"}
        for case in CASES:
            name = namespace_for(case)
            if name not in made:
                metadata = case.namespace_object["metadata"]
                plane.create_namespace(name, labels=metadata["labels"], annotations=metadata["annotations"])
                made.add(name)
        client.send("POST", "/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": "default"}})
        kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
        plane.apply(*({**kind, "metadata": {"name": name}, "handler": name} for name in NVIDIA_RUNTIMES))
        with installed(plane, all_policies()):
            wait_for_policies(plane)
            yield Cluster(plane, client)


@pytest.fixture(scope="module")
def webhook(prepared: Cluster) -> Iterator[Server]:
    pair = prepared.plane.authority.vouch_for("nvshare-webhook", hosts=("127.0.0.1",))
    kubeconfig = str(prepared.plane.kubeconfig)
    with serving(pair.certificate, pair.key, "--kubeconfig", kubeconfig, "--drain-seconds", "0") as server:
        bundle = Path(prepared.plane.authority.certificate).read_bytes()
        with installed(prepared.plane, registered(server, bundle)):
            yield server


def _create(cluster: Cluster, case: Case) -> Answer:
    namespace = namespace_for(case)
    if case.old is None:
        return cluster.client.create_pod(namespace, case.pod)
    name = f"d-{case.name}"
    old = {**case.old, "metadata": {**case.old["metadata"], "name": name}}
    spec = dict(old["spec"])
    existing = spec.pop("ephemeralContainers", [])
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    cluster.client.send("DELETE", f"{path}?gracePeriodSeconds=0")
    made = cluster.client.create_pod(namespace, {**old, "spec": spec}, dry_run=False)
    assert made.status == 201, made.message
    if existing:
        assert _debug(cluster, path, existing).status == 200
    return _debug(cluster, path + "/ephemeralcontainers?dryRun=All", case.pod["spec"]["ephemeralContainers"])


def _debug(cluster: Cluster, path: str, containers: list[Json]) -> Answer:
    if "/ephemeralcontainers" not in path:
        path += "/ephemeralcontainers"
    patch = {"spec": {"ephemeralContainers": containers}}
    return cluster.client.send("PATCH", path, patch, kind="application/strategic-merge-patch+json")


def _check_refused(answer: Answer, case: Case, codes: list[str]) -> None:
    if case.expect.get("api") == "refuses":
        assert answer.status == 422, answer.message
        return
    if not codes:
        assert answer.status in (200, 201), answer.message
        return
    assert answer.status == 403, (answer.status, answer.message)
    assert any(f"{code}: " in answer.message for code in codes), answer.message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_policies_alone_give_the_same_codes(prepared: Cluster, case: Case) -> None:
    answer = _create(prepared, case)

    is_warning = case.expect["verdict"] == "warned"
    _check_refused(answer, case, [] if is_warning else case.policy_codes)
    if is_warning:
        assert _codes_in(answer.warnings) == set(case.policy_codes)
    elif case.policy_codes == case.codes and len(case.codes) == 1:
        case.check_texts(answer.message, case.expect.get("warnings", []))


def _codes_in(warnings: list[str]) -> set[str]:
    return {rule.code for rule in POD_RULES if f"{rule.code}: " in "".join(warnings)}


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_webhook_and_policies_together_give_the_same_codes(prepared: Cluster, case: Case) -> None:
    answer = _create(prepared, case)

    is_denied = case.expect["verdict"] == "denied"
    _check_refused(answer, case, case.codes[:1] if is_denied else [])
    case.check_texts(answer.message, answer.warnings)
    if answer.status == 201 and not case.expect.get("own_volumes_first"):
        case.check_pod(answer.body)

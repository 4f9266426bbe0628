"""Whether hook and socket are volumes, by the namespace's level of Pod Security and the cluster's default."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from tests.fakes.pods import container, pod
from tests.webhook.cases import OPTED_IN
from tests.webhook.real import Answer, ApiClient, installed, registered, serving
from webhook.__main__ import main
from webhook.admission.decision import Volumes, gather
from webhook.admission.namespace_policy import POD_SECURITY_LABEL, PodSecurity, policy_of
from webhook.admission.pod import read_pod
from webhook.settings import read_settings


@pytest.mark.parametrize(
    ("label", "default", "volumes", "are_written"),
    [
        (None, "privileged", Volumes.AUTO, True),
        (None, "baseline", Volumes.AUTO, False),
        (None, "restricted", Volumes.AUTO, False),
        ("privileged", "baseline", Volumes.AUTO, True),
        ("privileged", "baseline", Volumes.NEVER, False),
        ("baseline", "privileged", Volumes.AUTO, False),
        ("restricted", "baseline", Volumes.AUTO, False),
        ("a typo, which means restricted", "privileged", Volumes.AUTO, False),
        (None, "privileged", Volumes.NEVER, False),
    ],
)
def test_volumes_are_written_where_pod_security_lets_them_through(
    label: str | None, default: str, volumes: Volumes, *, are_written: bool
) -> None:
    policy = policy_of("team-a", {**OPTED_IN, **({POD_SECURITY_LABEL: label} if label else {})}, {})

    facts = gather(read_pod(pod(container("main", 1))), policy, volumes=volumes.in_cluster(PodSecurity(default)))

    assert facts.with_volumes is are_written


def test_a_setting_says_the_default_and_only_a_user_s_own_words_are_taken() -> None:
    assert read_settings({}, {}, {}).default_pod_security is PodSecurity.PRIVILEGED
    told = read_settings({}, {"NVSHARE_WEBHOOK_DEFAULT_POD_SECURITY": "baseline"}, {})
    assert told.default_pod_security is PodSecurity.BASELINE
    with pytest.raises(Exception, match="auto or never"):
        read_settings({"volumes": "where-privileged"}, {}, {})
    with pytest.raises(Exception, match="default-pod-security='open' is not allowed"):
        read_settings({"default_pod_security": "open"}, {}, {})


@pytest.mark.parametrize(("default", "form"), [("privileged", "volumes"), ("baseline", "no-volumes")])
def test_inject_writes_what_serve_would(default: str, form: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "pod.yaml").write_text(json.dumps(pod(container("main", 1))))

    code = main(
        ["inject", "-f", str(tmp_path / "pod.yaml"), "--injection", "enabled", "--default-pod-security", default]
    )

    written = yaml.safe_load(capsys.readouterr().out)
    assert (code, "volumes" in written["spec"]) == (0, form == "volumes")
    assert written["metadata"]["annotations"] == {"nvshare.com/injected": f"v1 main=single {form}"}


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start an API server that enforces baseline where a Namespace names no level, as Talos does."""
    api = "pod-security.admission.config.k8s.io/v1"
    defaults = {"apiVersion": api, "kind": "PodSecurityConfiguration", "defaults": {"enforce": "baseline"}}
    plugins = [{"name": "PodSecurity", "configuration": defaults}]
    config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    file = tmp_path_factory.mktemp("admission") / "admission.yaml"
    file.write_text(yaml.safe_dump(config))
    with control_plane(Options(arguments=(f"--admission-control-config-file={file}",))) as plane:
        plane.create_namespace("on", labels=OPTED_IN)
        yield plane


@pytest.mark.cluster
@pytest.mark.parametrize(("default", "status"), [("privileged", 403), ("baseline", 201)])
def test_a_cluster_that_enforces_baseline_by_default_takes_the_pods_of_a_webhook_that_was_told(
    baseline: ControlPlane, default: str, status: int
) -> None:
    pair = baseline.authority.vouch_for("nvshare-webhook", hosts=("127.0.0.1",))
    bundle = Path(baseline.authority.certificate).read_bytes()
    told = ("--kubeconfig", str(baseline.kubeconfig), "--default-pod-security", default, "--drain-seconds", "0")
    with serving(pair.certificate, pair.key, *told) as server, installed(baseline, registered(server, bundle)):
        answer = _created_with_the_webhook(baseline, server.reviews)

    assert (answer.status, "violates PodSecurity" in answer.message) == (status, status == 403), answer.message


def _created_with_the_webhook(plane: ControlPlane, reviews: Any) -> Answer:
    """Return the answer on a pod once the API server calls the webhook."""
    client, until = ApiClient(plane), time.monotonic() + 30.0
    while True:
        before = reviews()
        answer = client.create_pod("on", pod(container("main", 1)))
        if reviews() > before and "InjectionLost" not in answer.message:  # not yet by both configurations
            client.close()
            return answer
        assert time.monotonic() < until
        time.sleep(0.1)

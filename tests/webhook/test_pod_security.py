"""Whether hook and socket are volumes, by the namespace's level of Pod Security and the cluster's default."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.webhook.cases import OPTED_IN
from tests.webhook.samples import container, pod
from webhook.__main__ import main
from webhook.decision import Volumes, gather
from webhook.namespace_policy import POD_SECURITY_LABEL, PodSecurity, policy_of
from webhook.pod import read_pod
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
    with pytest.raises(Exception, match="default-pod-security cannot be 'open'"):
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

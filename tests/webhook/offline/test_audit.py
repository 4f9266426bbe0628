"""`audit`: which running pods it names, and why; on raw objects, and on a real API server."""

from pathlib import Path
from typing import Any

import pytest

from contract.words.paths import CONTAINER_HOOK
from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.pods import container, pod
from tests.webhook.cases import CASES
from webhook.__main__ import main
from webhook.admission.json_fields import Json
from webhook.offline.audit import Flaw, audit_pod

_COMPLETE = next(case.pod for case in CASES if case.name == "own-output")
_PREPARED = {"env": [{"name": "LD_PRELOAD", "value": CONTAINER_HOOK}, {"name": "NVSHARE_MODE", "value": "single"}]}


def _summarized(summary: str) -> Json:
    made = pod(container("a", 1, **_PREPARED), annotations={"nvshare.com/injected": summary})
    return {**made, "metadata": {**made["metadata"], "labels": {"nvshare.com/vgpu": "true"}}}


_WITHOUT_VOLUMES = _summarized("v1 a=single no-volumes")
_UNDONE = _summarized("v1 a=single volumes")
_UNMARKED = {**_COMPLETE, "metadata": {**_COMPLETE["metadata"], "labels": {"app": "x"}}}
_OPTED_IN_AT = "2026-01-02T00:00:00Z"


def _namespace(injection: str | None = "enabled") -> Json:
    labels = {"nvshare.com/injection": injection} if injection else {}
    fields: Json = {"f:metadata": {"f:labels": {"f:nvshare.com/injection": {}}}}
    managed = [{"time": _OPTED_IN_AT, "fieldsV1": fields}]
    return {"metadata": {"name": "team-a", "labels": labels, "managedFields": managed}}


def _running(raw: Json, *, created: str = "2026-01-03T00:00:00Z", phase: str = "Running") -> Json:
    metadata = {**raw["metadata"], "namespace": "team-a", "creationTimestamp": created}
    spec = {**raw["spec"], "nodeName": "node-1"}
    return {**raw, "metadata": metadata, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("running", "namespace", "flaws"),
    [
        pytest.param(_running(_COMPLETE), _namespace(), [], id="a completed pod is as it should be"),
        pytest.param(_running(_WITHOUT_VOLUMES), _namespace(), [], id="one completed with --volumes=never, too"),
        pytest.param(_running(_UNMARKED), _namespace(), [Flaw.UNMARKED], id="one without the label can be changed"),
        pytest.param(
            _running(_UNDONE), _namespace(), [Flaw.PAST_WEBHOOK], id="one whose summary says volumes, and that has none"
        ),
        pytest.param(_running(pod(container("a", None))), _namespace(), [], id="a pod without a vGPU is not looked at"),
        pytest.param(_running(pod(container("a", 1))), _namespace(), [Flaw.PAST_WEBHOOK], id="came past the webhook"),
        pytest.param(
            _running(pod(container("a", 1)), created="2026-01-01T00:00:00Z"),
            _namespace(),
            [Flaw.BEFORE_OPT_IN],
            id="is older than the opt-in",
        ),
        pytest.param(_running(_COMPLETE), _namespace(None), [Flaw.REFUSED_TODAY], id="its namespace has left"),
        pytest.param(
            _running(pod(container("a", 3))),
            _namespace(),
            [Flaw.REFUSED_TODAY, Flaw.PAST_WEBHOOK],
            id="would be refused, and was not seen",
        ),
        pytest.param(_running(pod(container("a", 3)), phase="Succeeded"), _namespace(), [], id="is over"),
        pytest.param(_running(pod(container("a", 1))), _namespace("warn"), [], id="warn mode completes nothing"),
    ],
)
def test_a_running_pod(running: Json, namespace: Json, flaws: list[Flaw]) -> None:
    assert [finding.flaw for finding in audit_pod(running, namespace)] == flaws


@pytest.mark.cluster
def test_the_command_on_a_real_api_server(api_server: ControlPlane, new_namespace: Any, capsys: Any) -> None:
    name = new_namespace(labels={"nvshare.com/injection": "enabled"})
    kubeconfig = str(Path(api_server.kubeconfig))
    api_server.apply({**pod(container("main", 3), name="seen"), "metadata": {"name": "seen", "namespace": name}})

    code = main(["audit", "--kubeconfig", kubeconfig])

    said = capsys.readouterr().out
    assert code == 1
    assert f"{name}/seen: refused-today" in said
    assert "MultiGpuWithoutMode: " in said
    assert f"{name}/seen: past-webhook" in said
    assert main(["audit", "--kubeconfig", "/nowhere"]) == 2

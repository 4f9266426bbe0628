"""What our policies cost the API server, by its own metric, for a pod with 60,000 annotations.

Medians, beside a limit of 50 ms.  The webhook itself is not asked here: a pod without vGPUs never reaches it.
"""

import statistics
from collections.abc import Iterator

from testbed.cluster.kubernetes.control_plane import Options, control_plane
from tests.fakes.pods import container, pod
from tests.runners.bench import Row
from tests.webhook.admission_cost import Measured, many_annotations, measure
from tests.webhook.cases import OPTED_IN
from tests.webhook.real import ApiClient, all_policies, installed, wait_for_policies
from webhook.admission.json_fields import Json
from webhook.apiserver import hide_gpus

_ROUNDS = 7
_LIMIT_MS = 50
_MERGE = "application/merge-patch+json"


def bench() -> Iterator[Row]:
    """Measure a create, an update and a status patch of such a pod, and a refused create with a vGPU."""
    with control_plane(Options()) as plane:
        plane.create_namespace("on", labels=OPTED_IN)
        plane.create_namespace("off")
        with installed(plane, [*all_policies(), *hide_gpus.policy()]):
            wait_for_policies(plane)
            client = ApiClient(plane)
            for name, took in _requests(client):
                yield Row(what=f"policies' share of {name}", value=took, unit="ms", limit=_LIMIT_MS)
            client.close()


def _requests(client: ApiClient) -> Iterator[tuple[str, float]]:
    plain = pod(container("main", None), name="many", annotations=many_annotations())
    for namespace, where in (("off", "a namespace that has not opted in"), ("on", "an opted-in namespace")):
        pods = f"/api/v1/namespaces/{namespace}/pods"
        yield f"a create, {where}", _median(client, "POST", f"{pods}?dryRun=All", plain)
        assert client.create_pod(namespace, plain, dry_run=False).status == 201
        label = {"metadata": {"labels": {"q": "1"}}}
        yield f"an update, {where}", _median(client, "PATCH", f"{pods}/many?dryRun=All", label, kind=_MERGE)
        status = {"status": {"message": "x"}}
        yield (
            f"a status patch, {where}",
            _median(client, "PATCH", f"{pods}/many/status?dryRun=All", status, kind=_MERGE),
        )
    sharing = pod(container("main", 1), name="dear", annotations=many_annotations())
    yield "a create with a vGPU", _median(client, "POST", "/api/v1/namespaces/on/pods?dryRun=All", sharing, status=403)


def _median(
    client: ApiClient, method: str, path: str, body: Json, *, kind: str = "application/json", status: int | None = None
) -> float:
    found = [_checked(measure(client, method, path, body, kind=kind), status) for _ in range(_ROUNDS)]
    return statistics.median(found) * 1000


def _checked(found: Measured, status: int | None) -> float:
    assert found.answer.status == status or (status is None and found.answer.status in (200, 201)), found.answer.message
    return found.seconds

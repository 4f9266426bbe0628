"""What our policies cost the API server for a pod that is made to be dear: 60,000 annotations.

Beside two controls in the same run: no policy at all, and one policy whose condition is `false`.  The API server
converts old and new pod for each policy that matches, before it asks the condition: less than that no policy can cost.
So ours match a change by the label of pods with vGPUs.  Such a pod has at most 1,000 annotations; its changes are here
too.
Figures are minima of several requests, since others use the machine: seconds by the API server's admission metric, and
by its processor time.  The webhook itself is not asked here: a pod without vGPUs never reaches it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contract.words import names
from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from tests.fakes.pods import container, pod
from tests.runners.bench import Row
from tests.webhook.admission_cost import Measured, idle_policy, many_annotations, measure, wait_for_idle_policy
from tests.webhook.cases import OPTED_IN
from tests.webhook.real import ApiClient, all_policies, installed, wait_for_policies
from webhook.admission import cel
from webhook.admission.json_fields import Json
from webhook.apiserver import hide_gpus

_ROUNDS = 5
_LIMIT_MS = 50
_MERGE = "application/merge-patch+json"
_NAMESPACES = {"off": "elsewhere", "on": "opted in", "warned": "warn"}


@dataclass(frozen=True)
class Request:
    """A request that is measured again and again."""

    what: str
    method: str
    path: str
    body: Json
    kind: str = _MERGE
    status: int = 200


def bench() -> Iterator[Row]:
    """Measure a create, an update and a status patch of such a pod, and a refused create with a vGPU."""
    with control_plane(Options()) as plane:
        plane.create_namespace("on", labels=OPTED_IN)
        plane.create_namespace("off")
        plane.create_namespace("warned", labels={"nvshare.com/injection": "warn"})
        client = ApiClient(plane)
        for namespace in _NAMESPACES:
            assert client.create_pod(namespace, _pod("many"), dry_run=False).status == 201
        assert client.create_pod("on", _LARGEST, dry_run=False).status == 201
        requests = [request for namespace in _NAMESPACES for request in _requests(namespace)] + _OF_LARGEST
        yield from _compare(plane, client, requests)
        client.close()


def _compare(plane: ControlPlane, client: ApiClient, requests: list[Request]) -> Iterator[Row]:
    without = {request.what: _least(client, request) for request in requests}
    with installed(plane, idle_policy()):
        wait_for_idle_policy(client)
        yield from _rows("one policy that is false", client, requests[:3], without)
    with installed(plane, all_policies()):
        wait_for_policies(plane)
        yield from _rows("ours", client, requests, without)
        refused = _least(client, _REFUSED).seconds * 1000
        yield Row(what="ours: a create with a vGPU, refused", value=refused, unit="ms")
    with installed(plane, [*hide_gpus.policy(), *all_policies()]):
        wait_for_policies(plane)
        yield from _rows("with hide-gpus", client, [_requests("on")[0]], without)


def _rows(which: str, client: ApiClient, requests: Sequence[Request], without: Mapping[str, "Least"]) -> Iterator[Row]:
    for request in requests:
        found, control = _least(client, request), without[request.what]
        yield Row(
            what=f"{which}: {request.what}",
            value=(found.seconds - control.seconds) * 1000,
            unit="ms",
            limit=_LIMIT_MS,
            against="more than without policies;",
            note=f"processor {found.cpu * 1000:.0f} ms, without policies {control.cpu * 1000:.0f} ms",
        )


@dataclass(frozen=True)
class Least:
    """The least that a request took: seconds of admission, and of the API server's processor for all of it."""

    seconds: float
    cpu: float


def _pod(name: str, vgpus: int | None = None) -> Json:
    return pod(container("main", vgpus), name=name, annotations=many_annotations())


def _requests(namespace: str) -> list[Request]:
    pods, where = f"/api/v1/namespaces/{namespace}/pods", _NAMESPACES[namespace]
    create = Request(f"a create, {where}", "POST", f"{pods}?dryRun=All", _pod("new"), "application/json", 201)
    return [create, *_changes(f"{pods}/many", where)]


def _changes(path: str, where: str) -> list[Request]:
    label, status = {"metadata": {"labels": {"q": "1"}}}, {"status": {"message": "x"}}
    return [
        Request(f"an update, {where}", "PATCH", f"{path}?dryRun=All", label),
        Request(f"a status patch, {where}", "PATCH", f"{path}/status?dryRun=All", status),
    ]


_LARGEST = pod(container("main", 1), name="largest", annotations=many_annotations(cel.MOST_KEYS))
_LARGEST["metadata"]["labels"] = {names.VGPU_LABEL: names.VGPU_LABEL_VALUE}
_OF_LARGEST = _changes("/api/v1/namespaces/on/pods/largest", "with a vGPU")
_REFUSED = Request(
    "a create with a vGPU, refused",
    "POST",
    "/api/v1/namespaces/on/pods?dryRun=All",
    _pod("dear", 1),
    "application/json",
    403,
)


def _least(client: ApiClient, request: Request) -> Least:
    found = [_checked(client, request) for _ in range(_ROUNDS)]
    return Least(min(one.seconds for one in found), min(one.cpu_seconds for one in found))


def _checked(client: ApiClient, request: Request) -> Measured:
    found = measure(client, request.method, request.path, request.body, kind=request.kind)
    assert found.answer.status == request.status, found.answer.message
    return found

"""The envelope: an AdmissionReview of admission.k8s.io/v1 comes in, one with the same uid goes out.

The rule it owns: a review is read once, into a `Request`, and decided once, when the policy of its namespace is known.
The API server insists on the uid, on the version, and on patch and patchType together or neither.
"""

import json
from base64 import b64encode
from dataclasses import dataclass

from webhook.admission.decision import Decision, Stage, Verdict, Volumes, decide, gather
from webhook.admission.json_fields import Json, read_map, read_maps, read_text
from webhook.admission.namespace_policy import NamespacePolicy
from webhook.admission.pod import Pod, read_pod
from webhook.errors import MalformedReview

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_dense = json.JSONEncoder(separators=(",", ":")).encode
_AUDIT_VERDICT = "verdict"
_AUDIT_CODES = "codes"


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A review, read: everything that the decision needs besides the policy of the namespace."""

    uid: str
    namespace: str
    stage: Stage
    pod: Pod
    pod_name: str
    """Its name, or its generateName where the API server has not named it yet."""
    ephemeral_before: frozenset[str] | None
    """The debug containers that the pod had before; None where the pod is being created."""
    is_dry_run: bool


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The bytes that go back, and the facts that the log and the counters need."""

    body: bytes
    decision: Decision
    request: Request


def parse(body: bytes) -> Json:
    """Return the JSON of a request's body; raise MalformedReview where it is not an object."""
    try:
        review = _decode(body.decode())
    except RecursionError:
        raise MalformedReview("the body is nested too deeply: an AdmissionReview is not") from None
    except ValueError as error:
        raise MalformedReview(f"the body is not JSON ({str(error)[:80]}): send an AdmissionReview") from None
    if type(review) is not dict:
        raise MalformedReview("the body is not a JSON object: send an AdmissionReview")
    return review


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON value")


def uid_in(review: Json) -> str:
    """Return the request's uid, or the empty text; it is echoed even where another field is malformed."""
    request = review.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) and len(uid) <= _LONGEST_UID else ""


_LONGEST_UID = 128
_OF_DEBUGGERS = {Stage.MUTATE: Stage.EPHEMERAL, Stage.VALIDATE: Stage.EPHEMERAL_VALIDATE}
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def read_request(review: Json, stage: Stage) -> Request:
    """Read one review; raise MalformedReview where it is none that the webhook can answer."""
    request = _request_in(review)
    _check_subject(request)
    is_debugging = _adds_debuggers(request)
    raw = read_map(request, "object")
    metadata = read_map(raw, "metadata")
    return Request(
        uid=read_text(request, "uid"),
        namespace=read_text(request, "namespace"),
        stage=_OF_DEBUGGERS[stage] if is_debugging else stage,
        pod=read_pod(raw),
        pod_name=read_text(metadata, "name") or read_text(metadata, "generateName"),
        ephemeral_before=_ephemeral_names(read_map(request, "oldObject")) if is_debugging else None,
        is_dry_run=request.get("dryRun") is True,
    )


def answer(request: Request, namespace: NamespacePolicy, *, volumes: Volumes) -> Answer:
    """Decide on one review by the policy of its namespace."""
    facts = gather(request.pod, namespace, volumes=volumes, before=request.ephemeral_before)
    decision = decide(facts, request.stage)
    return Answer(_encode(request.uid, decision), decision, request)


def _adds_debuggers(request: Json) -> bool:
    operation, subresource = read_text(request, "operation"), read_text(request, "subResource")
    if operation == "UPDATE" and subresource == "ephemeralcontainers":
        return True
    if operation != "CREATE" or subresource:
        raise MalformedReview(
            f"operation {operation[:20]!r} on pods/{subresource[:40]} is not ours to review:"
            " register CREATE of pods and UPDATE of pods/ephemeralcontainers"
        )
    return False


def _request_in(review: Json) -> Json:
    version, kind = review.get("apiVersion"), review.get("kind")
    if version != API_VERSION or kind != KIND:
        raise MalformedReview(
            f"apiVersion {str(version)[:60]!r} and kind {str(kind)[:60]!r} are not known: send {KIND} of {API_VERSION}"
        )
    request = read_map(review, "request")
    if not read_text(request, "uid"):
        raise MalformedReview("the review has no request.uid: send the API server's own AdmissionReview")
    return request


def _check_subject(request: Json) -> None:
    resource = read_map(request, "resource")
    group, version, plural = (read_text(resource, key) for key in ("group", "version", "resource"))
    if (group, version, plural) != ("", "v1", "pods"):
        raise MalformedReview(
            f"resource {plural[:60]!r} of {group[:60]!r} {version[:20]!r} is not ours: register pods of v1 only"
        )
    if not read_map(request, "object"):
        raise MalformedReview("the review has no request.object: send the API server's own AdmissionReview")


def _ephemeral_names(old: Json) -> frozenset[str]:
    return frozenset(read_text(item, "name") for item in read_maps(read_map(old, "spec"), "ephemeralContainers"))


def _encode(uid: str, decision: Decision) -> bytes:
    response: Json = {"uid": uid, "allowed": decision.verdict is not Verdict.DENIED}
    if decision.verdict is Verdict.DENIED:
        response["status"] = _status(decision)
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(_dense(decision.patch).encode()).decode()
    if decision.warnings:
        response["warnings"] = decision.warnings
    if decision.verdict is not Verdict.ALLOWED:
        response["auditAnnotations"] = {
            _AUDIT_VERDICT: decision.verdict.value,
            **({_AUDIT_CODES: ",".join(decision.codes)} if decision.refusals else {}),
        }
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": response}
    return _dense(review).encode()


def _status(decision: Decision) -> Json:
    """Return a 403 status: the first code stands first in the message, and each code is one of the causes."""
    return {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": decision.message,
        "details": {
            "causes": [{"reason": item.code, "message": f"{item.cause} {item.remedy}"} for item in decision.refusals]
        },
    }

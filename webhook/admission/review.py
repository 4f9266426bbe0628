"""The envelope: an AdmissionReview of admission.k8s.io/v1 in, the same kind out, with the uid echoed.

Owns what the API server insists on: patch and patchType together or neither, the uid, the version.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from webhook.admission.decision import Decision, Stage, Verdict, Volumes, decide, gather
from webhook.admission.json_fields import Json, read_map, read_maps, read_text
from webhook.admission.namespace_policy import NamespacePolicy
from webhook.admission.pod import read_pod
from webhook.errors import MalformedReview

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_dense = json.JSONEncoder(separators=(",", ":")).encode
_AUDIT_VERDICT = "verdict"
_AUDIT_CODES = "codes"

NamespaceLookup = Callable[[str], NamespacePolicy]


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, and what the log and the counters say of it."""

    body: bytes
    decision: Decision
    namespace: str
    pod: str
    """Its name, or its generateName where it has none yet."""
    uid: str
    is_dry_run: bool


def parse(body: bytes) -> Json:
    """The review in the request's body."""
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
    """The request's uid where it can be read, for answers to reviews that are malformed elsewhere."""
    request = review.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) and len(uid) <= _LONGEST_UID else ""


_LONGEST_UID = 128
_OF_DEBUGGERS = {Stage.MUTATE: Stage.EPHEMERAL, Stage.VALIDATE: Stage.EPHEMERAL_VALIDATE}
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def answer(review: Json, stage: Stage, *, namespace_of: NamespaceLookup, volumes: Volumes) -> Answer:
    """The answer to one review; raises MalformedReview where it is none that we can answer."""
    request = _request(review)
    operation, subresource = read_text(request, "operation"), read_text(request, "subResource")
    _check_subject(request)
    uid, name = read_text(request, "uid"), read_text(request, "namespace")
    raw = read_map(request, "object")
    is_debugging = operation == "UPDATE" and subresource == "ephemeralcontainers"
    if is_debugging:
        stage = _OF_DEBUGGERS[stage]
    elif operation != "CREATE" or subresource:
        raise MalformedReview(
            f"operation {operation[:20]!r} on pods/{subresource[:40]} is not ours to review:"
            " register CREATE of pods and UPDATE of pods/ephemeralcontainers"
        )
    before = _ephemeral_names(read_map(request, "oldObject")) if is_debugging else None
    pod = read_pod(raw)
    facts = gather(pod, namespace_of(name), volumes=volumes, before=before)
    decision = decide(facts, stage)
    metadata = read_map(raw, "metadata")
    return Answer(
        body=_encode(uid, decision),
        decision=decision,
        namespace=name,
        pod=read_text(metadata, "name") or read_text(metadata, "generateName"),
        uid=uid,
        is_dry_run=request.get("dryRun") is True,
    )


def _request(review: Json) -> Json:
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
    """Forbidden; the first code stands first in the message, and every code among the causes."""
    return {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": decision.message,
        "details": {
            "causes": [{"reason": item.code, "message": f"{item.cause} {item.remedy}"} for item in decision.refusals]
        },
    }

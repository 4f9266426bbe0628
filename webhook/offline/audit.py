"""The decision of `audit` on running pods with vGPUs: refused today, past the webhook, before the opt-in, unmarked.

It is pure: raw pods and Namespaces go in, findings come out.
"""

from dataclasses import dataclass
from enum import StrEnum

from contract.words import names
from contract.words.grammar import Injection
from contract.words.reasons import Refusal
from webhook.admission.decision import Stage, Volumes, decide, gather
from webhook.admission.injection import undone
from webhook.admission.json_fields import Json, read_map, read_maps, read_text
from webhook.admission.namespace_policy import read_namespace
from webhook.admission.pod import read_pod

_OVER = ("Succeeded", "Failed")
_RULED_OUT = "NodeNameSet"
"""Not judged: every running pod has a node, and nothing tells any more whether the scheduler chose it."""


class Flaw(StrEnum):
    """The fault of a running pod."""

    REFUSED_TODAY = "refused-today"
    PAST_WEBHOOK = "past-webhook"
    BEFORE_OPT_IN = "before-opt-in"
    UNMARKED = "unmarked"
    """It has no label `nvshare.com/vgpu`: no policy looks at changes of its annotations."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One flaw of one pod."""

    namespace: str
    pod: str
    flaw: Flaw
    why: str
    remedy: str


def audit_pod(raw: Json, namespace: Json, *, volumes: Volumes = Volumes.AUTO) -> list[Finding]:
    """Return the flaws of one pod; none where it has no vGPUs or has ended."""
    if read_text(read_map(raw, "status"), "phase") in _OVER:
        return []
    facts = gather(read_pod(raw), policy := read_namespace(namespace), volumes=volumes)
    if not facts.sharing:
        return []
    metadata = read_map(raw, "metadata")
    where = (read_text(metadata, "namespace"), read_text(metadata, "name"))
    refusals = [item for item in decide(facts, Stage.MUTATE).refusals if item.code != _RULED_OUT]
    found = [_refused(where, item) for item in refusals]
    missing = [operation["path"] for operation in undone(facts) if operation["path"].startswith("/spec/")]
    if policy.injection is not Injection.ENABLED or policy.is_excluded:
        return found
    if missing:
        found.append(_incomplete(where, missing, is_older=_is_older(metadata, namespace)))
    elif names.VGPU_LABEL not in facts.pod.labels:
        found.append(_unmarked(where))
    return found


def _refused(where: tuple[str, str], refusal: Refusal) -> Finding:
    return Finding(*where, Flaw.REFUSED_TODAY, f"{refusal.code}: {refusal.cause}", refusal.remedy)


def _incomplete(where: tuple[str, str], missing: list[str], *, is_older: bool) -> Finding:
    lacks = f"it lacks what the webhook puts in ({', '.join(missing[:3])})"
    if is_older:
        why = f"The pod was created before its namespace opted in: {lacks}."
        return Finding(*where, Flaw.BEFORE_OPT_IN, why, "Create it anew, so that it is completed.")
    why = f"The pod came past the webhook: {lacks}."
    remedy = "Create it anew; if that happens again, see whether both webhook configurations are in the cluster."
    return Finding(*where, Flaw.PAST_WEBHOOK, why, remedy)


def _unmarked(where: tuple[str, str]) -> Finding:
    namespace, pod = where
    marked = f"{names.VGPU_LABEL}={names.VGPU_LABEL_VALUE}"
    why = f"The pod lacks the label {names.VGPU_LABEL}, so its nvshare.com/ annotations can be changed."
    return Finding(*where, Flaw.UNMARKED, why, f"kubectl label pod --namespace {namespace} {pod} {marked}")


def _is_older(metadata: Json, namespace: Json) -> bool:
    """Tell whether the pod is older than the label of its Namespace, as far as the managed fields tell."""
    times = [
        read_text(entry, "time")
        for entry in read_maps(read_map(namespace, "metadata"), "managedFields")
        if f"f:{names.INJECTION_LABEL}" in read_map(read_map(read_map(entry, "fieldsV1"), "f:metadata"), "f:labels")
    ]
    return bool(times) and read_text(metadata, "creationTimestamp") < max(times)


def audit_all(pods: list[Json], namespaces: list[Json], *, volumes: Volumes = Volumes.AUTO) -> list[Finding]:
    """Return the flaws of all pods, in the order of the pods."""
    by_name = {read_text(read_map(item, "metadata"), "name"): item for item in namespaces}
    return [
        finding
        for pod in pods
        for namespace in [by_name.get(read_text(read_map(pod, "metadata"), "namespace"))]
        if namespace is not None
        for finding in audit_pod(pod, namespace, volumes=volumes)
    ]

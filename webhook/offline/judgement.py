"""Admission without a cluster: the pods in any object, judged and completed by the same core.

It knows every built-in kind of workload, and Volcano's Job.  Every other object passes unchanged.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import jsonpatch

from webhook.admission.decision import Decision, Stage, Verdict, Volumes, decide, gather
from webhook.admission.json_fields import Json, read_map, read_maps, read_text
from webhook.admission.namespace_policy import NamespacePolicy, read_namespace
from webhook.admission.pod import read_pod
from webhook.admission.rules import NAMESPACE_RULES

_TEMPLATE = ("spec", "template")
POD_PLACES: dict[tuple[str, str], tuple[str, ...]] = {
    ("v1", "Pod"): (),
    ("v1", "PodTemplate"): ("template",),
    ("v1", "ReplicationController"): _TEMPLATE,
    ("apps/v1", "Deployment"): _TEMPLATE,
    ("apps/v1", "ReplicaSet"): _TEMPLATE,
    ("apps/v1", "StatefulSet"): _TEMPLATE,
    ("apps/v1", "DaemonSet"): _TEMPLATE,
    ("batch/v1", "Job"): _TEMPLATE,
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch.volcano.sh/v1alpha1", "Job"): ("spec", "tasks", "*", "template"),
}
"""The place of the pods in each kind; `*` is every item of a list."""

PolicyOf = Callable[[str], NamespacePolicy]


@dataclass(frozen=True, slots=True)
class Finding:
    """One pod or template of one object, and the decision on it."""

    kind: str
    name: str
    namespace: str
    place: str
    """The template's JSON pointer in its object; empty for a Pod."""
    decision: Decision


def objects_in(document: Json) -> Iterator[Json]:
    """Yield the document, or the items of a List."""
    if read_text(document, "kind").endswith("List") and "items" in document:
        yield from read_maps(document, "items")
    else:
        yield document


def pods_in(item: Json) -> Iterator[tuple[str, Json]]:
    """Yield each pod or template in an object, with its JSON pointer."""
    place = POD_PLACES.get((read_text(item, "apiVersion"), read_text(item, "kind")))
    if place is not None:
        yield from _follow(item, place, "")


def _follow(holder: Json, steps: tuple[str, ...], pointer: str) -> Iterator[tuple[str, Json]]:
    if not steps:
        yield pointer, holder
    elif len(steps) > 1 and steps[1] == "*":
        for index, item in enumerate(read_maps(holder, steps[0])):
            yield from _follow(item, steps[2:], f"{pointer}/{steps[0]}/{index}")
    elif read_map(holder, steps[0]):
        yield from _follow(read_map(holder, steps[0]), steps[1:], f"{pointer}/{steps[0]}")


def judge(item: Json, policy_of: PolicyOf, *, default_namespace: str, volumes: Volumes) -> list[Finding]:
    """Decide on every pod in an object, or on a Namespace."""
    metadata = read_map(item, "metadata")
    if read_text(item, "kind") == "Namespace":
        return [_judge_namespace(item)]
    namespace = read_text(metadata, "namespace") or default_namespace
    policy = policy_of(namespace)
    return [
        Finding(
            kind=read_text(item, "kind"),
            name=read_text(metadata, "name") or read_text(metadata, "generateName") + "*",
            namespace=namespace,
            place=pointer,
            decision=decide(gather(read_pod(raw), policy, volumes=volumes), Stage.OFFLINE),
        )
        for pointer, raw in pods_in(item)
    ]


def _judge_namespace(item: Json) -> Finding:
    policy = read_namespace(item)
    found = ((rule, rule.find(policy)) for rule in NAMESPACE_RULES)
    refusals = tuple(rule.refusal(offenders) for rule, offenders in found if offenders)
    decision = Decision(Verdict.DENIED if refusals else Verdict.ALLOWED, refusals)
    return Finding(kind="Namespace", name=policy.name, namespace=policy.name, place="", decision=decision)


def completed(item: Json, findings: list[Finding]) -> Json:
    """Return a copy of the object with its pods completed."""
    changed = deepcopy(item)
    for finding in findings:
        operations: Any = json.loads(json.dumps(finding.decision.patch))
        for operation in operations:
            operation["path"] = finding.place + operation["path"]
        changed = jsonpatch.apply_patch(changed, operations, in_place=True)
    return changed


def is_denied(findings: list[Finding]) -> bool:
    """Tell whether at least one pod would be refused."""
    return any(finding.decision.verdict is Verdict.DENIED for finding in findings)

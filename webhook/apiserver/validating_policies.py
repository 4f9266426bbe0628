"""The objects for the API server that come from the table of rules: validating policies and webhook configurations.

A policy holds the rules of a scope and the variables that they use.  The API server applies the policies alone, so they
hold even while the webhook is down.  The module is pure: `nvshare-webhook policies` writes the objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contract.words import names
from contract.words.grammar import LONGEST_LIST, Injection, Mode, OnMultiGpu
from webhook.admission import cel
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import EXCLUDED_NAMESPACES, NAME_LABEL, select_namespaces, select_opted_in
from webhook.admission.rule import Rule, Scope
from webhook.admission.rules import CHANGE_RULES, NAMESPACE_RULES, POD_RULES, changes, label, sizes
from webhook.admission.rules.counts import NAMES_MODE_CEL
from webhook.admission.rules.pod_kind import NVIDIA_RUNTIMES

API_VERSION = "admissionregistration.k8s.io/v1"
WEBHOOK_NAME = "nvshare-webhook"
WEBHOOK_TIMEOUT_SECONDS = 5
_RESOURCE = cel.text(names.RESOURCE)

Rules = Iterable[Rule[Any]]


NAMES_VGPU = cel.in_any_container(
    " || ".join(f"{_RESOURCE} in c.?resources.?{kind}.orValue({{}})" for kind in ("limits", "requests"))
)
"""The condition under which the webhook is called.  It comes before the API server has checked quantities, and an error
in it would refuse the pod.  So it looks only at the name of the resource; the webhook judges the amount, even 0."""


_COUNTED = f"(variables.reduces && {cel.VGPUS} > 1 ? 1 : {cel.VGPUS})"
"""The vGPUs of the container `c` after the reduction, where that is still to come."""
_WORD = f"variables.namespace_annotations[?'{names.ON_MULTI_GPU}'].orValue('')"
_REDUCES = f"!({NAMES_MODE_CEL}) && {_WORD} == '{OnMultiGpu.REDUCE}'"
_ONLY_WARNED = f"variables.namespace_labels[?'{names.INJECTION_LABEL}'].orValue('') == '{Injection.WARN}' && "
"""A created pod is reduced already, or nobody reduced it: only where nothing is changed is that still to come."""
_COMPLETED_AS = (
    f"variables.namespace_labels[?'{names.INJECTION_LABEL}'].orValue('') == '{Injection.ENABLED}'"
    f" && !('{names.MULTI_GPU}' in variables.annotations)"
    f" ? variables.annotations[?'{names.INJECTED}'].orValue('') : ''"
)
"""The summary of a created pod, written by /mutate over any other text.  Elsewhere it is a text of the user."""
_SIDECAR = "c.?restartPolicy.orValue('') == 'Always'"
_BEFORE = "variables.init_names.indexOf(s.name) < variables.init_names.indexOf(c.name)"
_SIDECARS_BEFORE = (
    f"variables.inits.filter(s, s.?restartPolicy.orValue('') == 'Always' && {_BEFORE}).map(c, {_COUNTED}).sum()"
)
_POD_VARIABLES: dict[str, str] = {
    "annotations": "{meta}.?annotations.orValue({{}})",
    "labels": "{meta}.?labels.orValue({{}})",
    "spec": "{spec}",
    "namespace_annotations": "namespaceObject.metadata.?annotations.orValue({{}})",
    "namespace_labels": "namespaceObject.metadata.?labels.orValue({{}})",
    "reduces": f"{{only_where}}{_REDUCES}",
    "inits": "variables.spec.?initContainers.orValue([])",
    "init_names": "variables.inits.map(c, c.name)",
    "containers": "variables.inits + variables.spec.containers",
    "asking": f"variables.containers.filter(c, {cel.VGPUS.replace('{', '{{').replace('}', '}}')} > 0)",
    "volumes": "variables.spec.?volumes.orValue([])",
    "mode": f"variables.annotations[?'{names.MULTI_GPU}'].orValue("
    f"variables.namespace_annotations[?'{names.MULTI_GPU}'].orValue('{Mode.PER_DEVICE}'))",
    "completed_as": "{completed_as}",
    "allow": f"[variables.namespace_annotations[?'{names.ALLOW}'].orValue('')]"
    f".map(v, size(v) <= {LONGEST_LIST} ? v : '')[0].split(',').map(p, p.trim())",
    "init_steps": f"variables.inits.filter(c, !({_SIDECAR}) && {_COUNTED} > 0).map(c, {_COUNTED} + {_SIDECARS_BEFORE})",
    "running": f"variables.spec.containers.map(c, {_COUNTED}).sum()"
    f" + variables.inits.filter(c, {_SIDECAR}).map(c, {_COUNTED}).sum()",
    "vgpus": "variables.init_steps.exists(n, n > variables.running) ? variables.init_steps.max() : variables.running",
}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One ValidatingAdmissionPolicy and its bindings."""

    name: str
    rules: Rules
    resources: tuple[Json, ...]
    variables: Mapping[str, str]
    bindings: tuple[Json, ...]
    conditions: Mapping[str, str] = field(default_factory=dict)
    objects: Json = field(default_factory=dict)
    """The selector of objects by their labels: for any other object the policy costs nothing."""


def _match(group: str, resources: tuple[str, ...], operations: tuple[str, ...], version: str = "v1") -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
    }


def _binding(suffix: str, actions: list[str], where: Json | None = None) -> Json:
    return {"suffix": suffix, "actions": actions, "where": where}


_OTHERS = select_namespaces((names.INJECTION_LABEL, "NotIn", Injection))
_EXCLUDED = select_namespaces((NAME_LABEL, "In", EXCLUDED_NAMESPACES))
_NOT_WARN = select_namespaces(
    (NAME_LABEL, "NotIn", EXCLUDED_NAMESPACES), (names.INJECTION_LABEL, "NotIn", (Injection.WARN,))
)
_LABELLED: Json = {"objectSelector": {"matchExpressions": [{"key": names.VGPU_LABEL, "operator": "Exists"}]}}
"""The API server selects a change by the object before it or after it: who removes the label is selected too."""
_DENY, _ONLY_WARN = ["Deny"], ["Warn", "Audit"]
_OPTED_IN = (
    _binding("enforce", _DENY, select_opted_in(Injection.ENABLED)),
    _binding("warn", _ONLY_WARN, select_opted_in(Injection.WARN)),
)
_CREATED_PODS = (_match("", ("pods",), ("CREATE",)),)


def _pod_variables() -> dict[str, str]:
    return _variables("object.metadata", "object.spec", only_where=_ONLY_WARNED, completed_as=_COMPLETED_AS)


def _variables(meta: str, spec: str, *, only_where: str = "", completed_as: str = "''") -> dict[str, str]:
    where = {"meta": meta, "spec": spec, "only_where": only_where, "completed_as": completed_as}
    return {**{name: text.format(**where) for name, text in _POD_VARIABLES.items()}, **sizes.VARIABLES}


def _of(*scopes: Scope) -> tuple[Rule[Any], ...]:
    """Return the rules of these scopes that the API server can decide, in the order of the table."""
    return tuple(rule for rule in POD_RULES if rule.cel and rule.scope in scopes)


_INVALID = "NamespacePolicyInvalid"
_TEMPLATE_KINDS = (
    _match("apps", ("deployments", "replicasets", "statefulsets", "daemonsets"), ("CREATE", "UPDATE")),
    _match("batch", ("jobs",), ("CREATE", "UPDATE")),
    _match("", ("replicationcontrollers",), ("CREATE", "UPDATE")),
)


def _for_templates(name: str, kinds: tuple[Json, ...], template: str) -> Policy:
    return Policy(
        name=name,
        rules=_of(Scope.GATE, Scope.VGPU_POD, Scope.ANY_POD),
        resources=kinds,
        variables=_variables(f"{template}.?metadata", f"{template}.spec"),
        bindings=(_binding("warn", _ONLY_WARN),),
        conditions={"asks-for-vgpu": cel.asks_for_vgpu(f"{template}.spec")},
    )


_ASKS = cel.asks_for_vgpu()
_MAY_BE_REFUSED = (
    f"object.spec.?runtimeClassName.orValue('') in {cel.texts(NVIDIA_RUNTIMES)}"
    f" || {sizes.has_host_paths_or_many('object.spec')} || {sizes.is_large('object.spec')}"
)
"""Holds of each pod that a rule on any pod refuses: of the others no rule is asked."""


def _for_created_pods() -> tuple[Policy, ...]:
    """Return policies of which one matches a pod without our label, in any namespace.

    The API server converts the whole pod for each policy that matches, which takes 33 ms for 60,000 annotations.  It
    converts it three times more where the condition holds.
    """
    in_opted_in = (rule for rule in _of(Scope.GATE, Scope.VGPU_POD, Scope.ANY_POD))
    return (
        Policy(
            name="nvshare-gate",
            rules=_of(Scope.GATE),
            resources=_CREATED_PODS,
            variables=_pod_variables(),
            bindings=(_binding("others", _DENY, _OTHERS), _binding("excluded", _DENY, _EXCLUDED)),
            conditions={"asks-for-vgpu": _ASKS},
        ),
        Policy(
            name="nvshare-pods",
            rules=tuple(rule for rule in in_opted_in if rule.scope is not Scope.GATE or rule.code == _INVALID),
            resources=_CREATED_PODS,
            variables={**_pod_variables(), "asks": _ASKS},
            bindings=_OPTED_IN,
            conditions={"asks-for-vgpu-or-may-be-refused": f"{_ASKS} || {_MAY_BE_REFUSED}"},
        ),
        Policy(
            name="nvshare-labels",
            rules=_of(Scope.LABELLED),
            resources=_CREATED_PODS,
            variables=_pod_variables(),
            bindings=(
                _binding("enforce", _DENY, _NOT_WARN),
                _binding("warn", _ONLY_WARN, select_opted_in(Injection.WARN)),
            ),
            conditions={"asks-for-no-vgpu": label.ASKS_FOR_NONE},
            objects=_LABELLED,
        ),
    )


def _for_changes() -> tuple[Policy, ...]:
    return (
        Policy(
            name="nvshare-debug-containers",
            rules=_of(Scope.EPHEMERAL),
            resources=(_match("", ("pods/ephemeralcontainers",), ("UPDATE",)),),
            variables={**_pod_variables(), **sizes.DEBUG_VARIABLES},
            bindings=_OPTED_IN,
            conditions={"asks-for-vgpu": f"{cel.asks_for_vgpu()} || {_MANY_DEBUGGERS}"},
        ),
        Policy(
            name="nvshare-pod-changes",
            rules=CHANGE_RULES,
            resources=(_match("", ("pods", "pods/status"), ("UPDATE",)),),
            variables=changes.VARIABLES,
            bindings=(_binding("enforce", _DENY, _NOT_WARN),),
            conditions={"changes-ours": changes.CHANGES_OURS},
            objects=_LABELLED,
        ),
        Policy(
            name="nvshare-namespaces",
            rules=NAMESPACE_RULES,
            resources=(_match("", ("namespaces",), ("CREATE", "UPDATE")),),
            variables={
                "labels": "object.metadata.?labels.orValue({})",
                "annotations": "object.metadata.?annotations.orValue({})",
            },
            bindings=(_binding("enforce", _DENY),),
            conditions={"not-going": "!has(object.metadata.deletionTimestamp)"},
        ),
    )


def _warnings_on_templates() -> tuple[Policy, ...]:
    return (
        _for_templates("nvshare-templates", _TEMPLATE_KINDS, "object.spec.template"),
        _for_templates(
            "nvshare-cronjobs",
            (_match("batch", ("cronjobs",), ("CREATE", "UPDATE")),),
            "object.spec.jobTemplate.spec.template",
        ),
    )


_MANY_DEBUGGERS = f"object.spec.?ephemeralContainers.orValue([]).size() > {sizes.MOST_DEBUGGERS}"
"""This holds for any pod: other loops over debug containers rely on the limit."""


def _validation(rule: Rule[Any]) -> Json:
    before, found, after = rule.cause.partition("{found}")
    opening, closing = cel.text(f"{rule.code}: {before}"), cel.text(f"{after} {rule.remedy}")
    plain = rule.cause.replace(": {found}", "").replace(" {found}", "").replace("({found})", "")
    validation = {
        "expression": f"variables.{rule.code}.size() == 0",
        "message": f"{rule.code}: {plain} {rule.remedy}",
        "reason": "Forbidden",
    }
    if found:
        validation["messageExpression"] = f"{opening} + variables.{rule.code}.join(', ') + {closing}"
    return validation


def _used(variables: Mapping[str, str], expressions: Iterable[str]) -> dict[str, str]:
    """Return the variables that the expressions use, directly or not, in their order."""
    needed, waiting = set[str](), list(expressions)
    while waiting:
        text = waiting.pop()
        for name, definition in variables.items():
            if name not in needed and _mentions(text, name):
                needed.add(name)
                waiting.append(definition)
    return {name: text for name, text in variables.items() if name in needed}


def _mentions(text: str, name: str) -> bool:
    parts = text.split(f"variables.{name}")
    return any(not part[:1].isalnum() and part[:1] != "_" for part in parts[1:])


def _founds(rules: tuple[Rule[Any], ...], *, are_any_pods: bool) -> dict[str, str]:
    """Return the expression of each rule.

    A rule on the pod itself finds nothing where the pod is too large.  Where a policy sees pods without vGPUs too, a
    rule on pods with vGPUs finds nothing in them.
    """
    limit = next((rule.code for rule in rules if rule.code in sizes.LIMITS), None)
    return {
        str(rule.code): _only_if_asked(rule, limit)
        if are_any_pods and rule.scope in _OF_VGPU_PODS
        else _only_if_small(rule, limit)
        for rule in rules
    }


_OF_VGPU_PODS = (Scope.GATE, Scope.VGPU_POD)


def _only_if_asked(rule: Rule[Any], limit: str | None) -> str:
    return f"variables.asks ? ({_only_if_small(rule, limit)}) : []"


def _only_if_small(rule: Rule[Any], limit: str | None) -> str:
    found = rule.cel or ""
    if limit in (None, rule.code) or rule.scope is Scope.GATE:
        return found
    return f"variables.{limit}.size() > 0 ? [] : ({found})"


def _as_object(policy: Policy) -> Json:
    rules = tuple(policy.rules)
    founds = _founds(rules, are_any_pods="asks" in policy.variables)
    variables = {**_used(policy.variables, founds.values()), **founds}
    conditions = [{"name": name, "expression": text} for name, text in policy.conditions.items()]
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy.name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {**policy.objects, "resourceRules": list(policy.resources)},
            **({"matchConditions": conditions} if conditions else {}),
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "validations": [_validation(rule) for rule in rules],
        },
    }


def _bindings(policy: Policy) -> list[Json]:
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"{policy.name}-{binding['suffix']}"},
            "spec": {
                "policyName": policy.name,
                "validationActions": binding["actions"],
                **({"matchResources": binding["where"]} if binding["where"] else {}),
            },
        }
        for binding in policy.bindings
    ]


def validating_policies() -> list[Json]:
    """Return every policy and binding of `manifests/base`."""
    policies = (*_for_created_pods(), *_for_changes(), *_warnings_on_templates())
    return [item for policy in policies for item in (_as_object(policy), *_bindings(policy))]


def webhook_configurations() -> list[Json]:
    """Return both webhook configurations, without the bundle of CAs: `certs` writes it."""
    return [
        _configuration("MutatingWebhookConfiguration", "/mutate", {"reinvocationPolicy": "IfNeeded"}),
        _configuration("ValidatingWebhookConfiguration", "/validate", {}),
    ]


def _configuration(kind: str, path: str, more: Json) -> Json:
    service = {"namespace": names.SYSTEM_NAMESPACE, "name": WEBHOOK_NAME, "path": path, "port": 443}
    webhook = {
        "name": f"{path[1:]}.nvshare.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": WEBHOOK_TIMEOUT_SECONDS,
        **more,
        **select_opted_in(*Injection),
        "rules": [
            {**_match("", ("pods",), ("CREATE",)), "scope": "Namespaced"},
            {**_match("", ("pods/ephemeralcontainers",), ("UPDATE",)), "scope": "Namespaced"},
        ],
        "matchConditions": [{"name": "asks-for-vgpu", "expression": NAMES_VGPU}],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": WEBHOOK_NAME},
        "webhooks": [webhook],
    }

"""The overlay `hide-gpus`: containers that asked for no GPU see none, though their image says otherwise.

MutatingAdmissionPolicies (Kubernetes 1.36 and newer) in opted-in namespaces; no server stands behind them.
A pure generator.
"""

from typing import Any

from contract import names
from contract.grammar import Injection
from webhook.admission import cel
from webhook.admission.injected import HIDDEN
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import select_opted_in
from webhook.admission.rules.counts import OTHER_GPU_PREFIXES
from webhook.admission.rules.sizes import MOST_DEBUGGERS, are_few

NAME = "nvshare-hide-gpus"
_API_VERSION = "admissionregistration.k8s.io/v1"
_VARIABLE = cel.text(names.ENV_VISIBLE_DEVICES)
_VOID = cel.text(HIDDEN)
_BRINGS_GPU = " || ".join(
    (f"k == {cel.text(names.RESOURCE)}", *(f"k.startsWith({cel.text(prefix)})" for prefix in OTHER_GPU_PREFIXES))
)
_ASKED = (
    f"(c.?resources.?limits.orValue({{}}).exists(k, ({_BRINGS_GPU})"
    " && quantity(c.resources.limits[k]).isGreaterThan(quantity('0')))"
    " || c.?resources.?claims.orValue([]).size() > 0)"
)
_REFERS = f"c.?env.orValue([]).exists(e, e.name == {_VARIABLE} && has(e.valueFrom))"
_KINDS = ("containers", "initContainers")
_DEBUG = "ephemeralContainers"
_IS_NEW = "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name)"
"""What a debug container that is there already has is settled."""


def _affected(kind: str, condition: str) -> str:
    """The containers of that kind that asked for no GPU."""
    is_new = f"{_IS_NEW} && " if kind == _DEBUG else ""
    return f"object.spec.?{kind}.orValue([]).filter(c, {is_new}!{_ASKED} && {condition})"


def _plain(kind: str) -> str:
    """Adds the entry, or sets the value of the one that is there."""
    entry = f"Object.spec.{kind}.env{{name: {_VARIABLE}, value: {_VOID}}}"
    return f"{_affected(kind, '!' + _REFERS)}.map(c, Object.spec.{kind}{{name: c.name, env: [{entry}]}})"


def _replacing(kind: str) -> str:
    """An entry that takes its value from elsewhere is replaced whole: a value beside it would be refused."""
    return (
        f"{_affected(kind, _REFERS)}.map(c, JSONPatch{{op: 'replace', path:"
        f" '/spec/{kind}/' + string(object.spec.{kind}.map(o, o.name).indexOf(c.name))"
        f" + '/env/' + string(c.env.map(e, e.name).indexOf({_VARIABLE})),"
        f" value: {{'name': {_VARIABLE}, 'value': {_VOID}}}}})"
    )


def _mutations(kinds: tuple[str, ...]) -> list[Json]:
    applied = ", ".join(f"{kind}: {_plain(kind)}" for kind in kinds)
    return [
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": f"Object{{spec: Object.spec{{{applied}}}}}"},
        },
        {"patchType": "JSONPatch", "jsonPatch": {"expression": " + ".join(map(_replacing, kinds))}},
    ]


def _policy(name: str, operation: str, resource: str, **spec: Any) -> list[Json]:
    """Return the policy and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": {"resourceRules": [rule]},
                **spec,
            },
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "matchResources": select_opted_in(Injection.ENABLED)},
        },
    ]


def policy() -> list[Json]:
    """Return the policies and their bindings: for pods, and for debug containers that the webhook does not treat.

    The condition reads the pod as it runs: the words of the request about its containers are not believed.
    """
    # Larger pods, and more debug containers, are refused by the policies of the table: the loops need not see them.
    few = {"name": "few", "expression": are_few("object.spec.?initContainers.orValue([]) + object.spec.containers")}
    debuggers = "object.spec.?ephemeralContainers.orValue([])"
    few_debuggers = {"name": "few", "expression": f"{debuggers}.size() <= {MOST_DEBUGGERS} && {are_few(debuggers)}"}
    elsewhere = {"name": "asks-for-no-vgpu", "expression": f"!({cel.asks_for_vgpu('oldObject.spec')})"}
    return [
        *_policy(NAME, "CREATE", "pods", matchConditions=[few], mutations=_mutations(_KINDS)),
        *_policy(
            f"{NAME}-debug",
            "UPDATE",
            "pods/ephemeralcontainers",
            matchConditions=[few_debuggers, elsewhere],
            mutations=_mutations((_DEBUG,)),
        ),
    ]

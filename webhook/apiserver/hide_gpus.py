"""The overlay `hide-gpus`: containers that asked for no GPU see none, though their image says otherwise.

MutatingAdmissionPolicies (Kubernetes 1.36 and newer) in opted-in namespaces; no server stands behind them.
A pure generator.
"""

from typing import Any

from contract.words import names
from contract.words.grammar import Injection
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
_ENV = "c.?env.orValue([])"
_SEES = f"{_ENV}.filter(e, e.name == {_VARIABLE}).map(e, e.?value.orValue(''))"
"""Every value of the variable: a list of variables may name one twice."""
_ENTRY = f"{{'name': {_VARIABLE}, 'value': {_VOID}}}"
_HIDDEN_ENV = (
    f"({_SEES}.size() > 0 ? {_ENV}.map(e, e.name == {_VARIABLE} ? dyn({_ENTRY}) : dyn(e)) : {_ENV} + [{_ENTRY}])"
)
"""Entries keep their places: later ones may refer to earlier ones."""
_KINDS = ("containers", "initContainers")
_DEBUG = "ephemeralContainers"
_IS_NEW = "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name)"
"""What a debug container that is there already has is settled."""


def _affected(kind: str) -> str:
    """Return the containers of that kind that asked for no GPU and may still see one."""
    is_new = f"{_IS_NEW} && " if kind == _DEBUG else ""
    return f"object.spec.?{kind}.orValue([]).filter(c, {is_new}!{_ASKED} && {_SEES} != [{_VOID}])"


def _hiding(kind: str) -> str:
    """Return a patch that writes the variables of these containers anew."""
    index = f"string(object.spec.{kind}.map(o, o.name).indexOf(c.name))"
    return (
        f"{_affected(kind)}.map(c, JSONPatch{{op: 'add', path: '/spec/{kind}/' + {index} + '/env',"
        f" value: {_HIDDEN_ENV}}})"
    )


def _mutations(kinds: tuple[str, ...]) -> list[Json]:
    """Return one JSON patch: to merge an `ApplyConfiguration` takes the API server seconds for 60,000 annotations."""
    return [{"patchType": "JSONPatch", "jsonPatch": {"expression": " + ".join(map(_hiding, kinds))}}]


def _some_affected(kinds: tuple[str, ...]) -> Json:
    """Return the condition that spares other pods: even an empty patch is a pod encoded and decoded."""
    return {"name": "some-see-gpus", "expression": " || ".join(f"{_affected(kind)}.size() > 0" for kind in kinds)}


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
        *_policy(NAME, "CREATE", "pods", matchConditions=[few, _some_affected(_KINDS)], mutations=_mutations(_KINDS)),
        *_policy(
            f"{NAME}-debug",
            "UPDATE",
            "pods/ephemeralcontainers",
            matchConditions=[few_debuggers, elsewhere, _some_affected((_DEBUG,))],
            mutations=_mutations((_DEBUG,)),
        ),
    ]

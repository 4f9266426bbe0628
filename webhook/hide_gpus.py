"""The overlay `hide-gpus`: containers that asked for no GPU see none, though their image says otherwise.

A MutatingAdmissionPolicy (Kubernetes 1.36 and newer) in opted-in namespaces; no server stands behind it.
A pure generator.  May import the contract, `cel`, `namespace_policy` and the rules' words.
"""

from contract import names
from contract.grammar import Injection
from webhook import cel
from webhook.fields import Json
from webhook.namespace_policy import select_opted_in
from webhook.rules.counts import OTHER_GPU_PREFIXES
from webhook.words import HIDDEN

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


def _plain(kind: str) -> str:
    """Adds the entry, or sets the value of the one that is there."""
    entry = f"Object.spec.{kind}.env{{name: {_VARIABLE}, value: {_VOID}}}"
    return (
        f"object.spec.?{kind}.orValue([]).filter(c, !{_ASKED} && !{_REFERS})"
        f".map(c, Object.spec.{kind}{{name: c.name, env: [{entry}]}})"
    )


def _replacing(kind: str) -> str:
    """An entry that takes its value from elsewhere is replaced whole: a value beside it would be refused."""
    return (
        f"object.spec.?{kind}.orValue([]).filter(c, !{_ASKED} && {_REFERS}).map(c, JSONPatch{{op: 'replace', path:"
        f" '/spec/{kind}/' + string(object.spec.{kind}.map(o, o.name).indexOf(c.name))"
        f" + '/env/' + string(c.env.map(e, e.name).indexOf({_VARIABLE})),"
        f" value: {{'name': {_VARIABLE}, 'value': {_VOID}}}}})"
    )


def policy() -> list[Json]:
    """The policy and its binding."""
    applied = ", ".join(f"{kind}: {_plain(kind)}" for kind in _KINDS)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": {"resourceRules": [rule]},
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": f"Object{{spec: Object.spec{{{applied}}}}}"},
                    },
                    {
                        "patchType": "JSONPatch",
                        "jsonPatch": {"expression": " + ".join(map(_replacing, _KINDS))},
                    },
                ],
            },
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {
                "policyName": NAME,
                "matchResources": select_opted_in(Injection.ENABLED),
            },
        },
    ]

"""The files that are written from the table of rules: manifests and the page of refusals.

A pure generator: paths and contents; `nvshare-webhook policies` writes them, a test finds stale ones.
May import yaml and the room's generators.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from adapters.kubernetes.manifests import write_documents
from contract import names
from contract.grammar import Injection
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import EXCLUDED_NAMESPACES
from webhook.admission.rule import Rule
from webhook.admission.rules import CHANGE_RULES, NAMESPACE_RULES, POD_RULES
from webhook.apiserver import hide_gpus
from webhook.apiserver.validating_policies import validating_policies, webhook_configurations
from webhook.errors import StartError

_NOTE = "# Written by `nvshare-webhook policies` from the table in webhook/rules: change it there.\n"


def manifests() -> dict[PurePosixPath, str]:
    """Each generated file below `manifests/`, and its content."""
    return {
        PurePosixPath("base/policies.yaml"): _yaml(validating_policies()),
        PurePosixPath("base/webhooks.yaml"): _yaml(webhook_configurations()),
        PurePosixPath("components/hide-gpus/policy.yaml"): _yaml(hide_gpus.policy()),
    }


def _yaml(objects: list[Json]) -> str:
    return _NOTE + write_documents(objects)


def all_rules() -> Iterable[Rule[Any]]:
    """Every rule, in the order of the page."""
    return (*POD_RULES, *CHANGE_RULES, *NAMESPACE_RULES)


_HEAD = """# Refusals

Written by `nvshare-webhook policies --docs` from the table in `webhook/rules`: change it there.

Each refusal begins with its code; the same code is the metric's label, a word in the log line, and, in
`nvshare-webhook check --output json`, a field. *Decided by* says who refuses: the API server's own policies (even
while the webhook is down), the webhook, or both. Every example is refused by a real API server in the tests.

| code | looks at | decided by |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Examples:
    """What the case files show of the codes."""

    pods: Mapping[str, str]
    """For each code the pod of the shortest file that earns it alone."""
    asked: frozenset[str]
    """The codes of reviews that the API server calls the webhook for."""


def refusals_page(examples: Examples) -> str:
    """The page of every code, with an example object for each code that has one."""
    rules = list(all_rules())
    rows = "".join(
        f"| [{rule.code}](#{rule.code.lower()}) | {rule.scope.value} | {_decided_by(rule, examples.asked)} |\n"
        for rule in rules
    )
    return _HEAD + rows + "".join(_section(rule, examples.pods.get(rule.code, "")) for rule in rules)


def examples_in(folder: Path) -> Examples:
    """What the case files in a folder show."""
    found: dict[str, str] = {}
    asked: set[str] = set()
    paths = sorted(folder.glob("*.yaml"), key=lambda path: (path.stat().st_size, path.name))
    if not paths:
        raise StartError(f"{folder} holds no case files. Name the folder that does with --cases.")
    for path in paths:
        try:
            case = yaml.safe_load(path.read_text())
            if _calls_webhook(case):
                asked.update(case["expect"].get("codes") or [])
            codes = case["expect"].get("check") or case["expect"].get("codes") or []
            if len(codes) == 1:
                found.setdefault(codes[0], write_documents(_shown(case)))
        except _NO_CASE:
            raise StartError(f"{path} is no case file. Remove it from the folder, or name another --cases.") from None
    return Examples({**found, **_ELSEWHERE}, frozenset(asked))


def _calls_webhook(case: Json) -> bool:
    """By the webhooks' selector and condition: an opted-in namespace, and a container that names our resource."""
    namespace, spec = case.get("namespace") or {}, case["pod"]["spec"]
    label = (namespace.get("labels") or {}).get(names.INJECTION_LABEL) if "labels" in namespace else Injection.ENABLED
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    resources = [amounts for item in containers for amounts in (item.get("resources") or {}).values() if amounts]
    return (
        label in tuple(Injection)
        and namespace.get("name") not in EXCLUDED_NAMESPACES
        and any(names.RESOURCE in amounts for amounts in resources)
    )


_NO_CASE = (OSError, yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError)


def _shown(case: Json) -> list[Json]:
    """The pod, and its Namespace where that matters."""
    pod = {**case["pod"], "spec": {k: v for k, v in case["pod"]["spec"].items() if k != "automountServiceAccountToken"}}
    namespace = case.get("namespace")
    if not namespace:
        return [pod]
    about = {key: namespace[key] for key in ("labels", "annotations") if namespace.get(key)}
    metadata = {"name": namespace.get("name", "team-a"), **about}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, pod]


_ELSEWHERE = {
    "AnnotationChanged": "# kubectl annotate --overwrite pod trainer nvshare.com/weight=900\n",
    "NamespaceValueUnknown": "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team-a\n  labels:\n"
    '    nvshare.com/injection: "on"\n',
}


def _decided_by(rule: Rule[Any], asked: frozenset[str]) -> str:
    if rule.code == "IllegalQuantity":
        return "the API server's validation; `check` says it first"
    if rule.cel is None:
        return "webhook"
    return "policy and webhook" if rule.code in asked else "policy"


def _section(rule: Rule[Any], example: str) -> str:
    shown = f"\nFor example:\n\n```yaml\n{example}```\n" if example else ""
    cause = rule.cause.replace("{found}", "*…*")
    return f"\n## {rule.code}\n\n{cause}\n\n**Fix**: {rule.remedy}\n{shown}"

"""Write docs/refusals.md: `python -m tests.webhook.refusals_page`.

The page is made from the webhook's table of rules; its examples are pods of the case files.
It stands among the tests because the product does not read test cases.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from adapters.kubernetes.manifests import write_documents
from contract.words import names
from contract.words.grammar import Injection
from tests.webhook.cases import FOLDER, read_yaml
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import EXCLUDED_NAMESPACES
from webhook.admission.rule import Rule
from webhook.apiserver.generated import all_rules

PAGE = Path(__file__).parents[2] / "docs" / "refusals.md"


class BadCases(Exception):
    """The case files cannot be read."""


_HEAD = """# Refusals

Written by `python -m tests.webhook.refusals_page` from the table in `webhook/admission/rules`: change it there.

Each refusal begins with its code; the same code is the metric's label, a word in the log line, and, in
`nvshare-webhook check --output json`, a field. *Decided by* says who refuses: the API server's own policies (even
while the webhook is down), the webhook, or both. Every example is refused by a real API server in the tests.

| code | looks at | decided by |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Examples:
    """Hold what the case files show of the codes."""

    pods: Mapping[str, str]
    """For each code the pod of the shortest file that earns it alone."""
    asked: frozenset[str]
    """The codes of reviews that the API server calls the webhook for."""


def refusals_page(examples: Examples) -> str:
    """Return the page of every code, with an example object for each code that has one."""
    rules = list(all_rules())
    rows = "".join(
        f"| [{rule.code}](#{rule.code.lower()}) | {rule.scope.value} | {_decided_by(rule, examples.asked)} |\n"
        for rule in rules
    )
    return _HEAD + rows + "".join(_section(rule, examples.pods.get(rule.code, "")) for rule in rules)


def examples_in(folder: Path) -> Examples:
    """Read the case files in a folder."""
    found: dict[str, str] = {}
    asked: set[str] = set()
    paths = sorted(folder.glob("*.yaml"), key=lambda path: (path.stat().st_size, path.name))
    if not paths:
        raise BadCases(f"{folder} holds no case files. Name the folder that does.")
    for path in paths:
        try:
            case = read_yaml(path.read_text())
            if _calls_webhook(case):
                asked.update(case["expect"].get("codes") or [])
            codes = case["expect"].get("check") or case["expect"].get("codes") or []
            if len(codes) == 1:
                found.setdefault(codes[0], write_documents(_shown(case)))
        except _NO_CASE:
            raise BadCases(f"{path} is no case file. Remove it, or name another folder.") from None
    return Examples({**found, **_ELSEWHERE}, frozenset(asked))


def _calls_webhook(case: Json) -> bool:
    """Apply the webhooks' selector and condition: an opted-in namespace, and a container that names our resource."""
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
    """Return the pod, and its Namespace where that matters."""
    pod = {**case["pod"], "spec": {k: v for k, v in case["pod"]["spec"].items() if k != "automountServiceAccountToken"}}
    namespace = case.get("namespace")
    if not namespace:
        return [pod]
    about = {key: namespace[key] for key in ("labels", "annotations") if namespace.get(key)}
    metadata = {"name": namespace.get("name", "team-a"), **about}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, pod]


_ELSEWHERE = {
    "PodTooLarge": "# a pod with 201 containers, or one with 2,001 environment variables\n",
    "DebugContainersTooLarge": "# kubectl debug, for the 101st time on the same pod\n",
    "AnnotationChanged": "# kubectl annotate --overwrite pod trainer nvshare.com/weight=900\n",
    "PodOutgrown": "# a pod with a vGPU that gets a 1,001st annotation or label\n",
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


if __name__ == "__main__":
    PAGE.write_text(refusals_page(examples_in(FOLDER)))
    sys.stdout.write(f"wrote {PAGE}\n")

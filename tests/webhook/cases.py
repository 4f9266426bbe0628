"""The case files of `cases/`: one pod, its namespace, and what must come of it.

Keys: `namespace` (labels, annotations, name; opted in unless labels say otherwise), `old` (a pod's state before a debug
container came), `pod`, `expect`.  In `expect`: `verdict`, `codes` (all, in order), `says` (texts in the message),
`warnings`, `becomes` and `absent` (JSON pointers of the completed pod), `check` (codes offline where they differ),
`policies` (any of these codes where no webhook runs, when they differ from `codes`), `api: refuses` (the API server's
own validation refuses it).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonpointer
import yaml

from webhook.admission.json_fields import Json
from webhook.admission.rules import POD_RULES

FOLDER = Path(__file__).with_name("cases")
OPTED_IN = {"nvshare.com/injection": "enabled"}
_DECIDED_BY_API = frozenset(rule.code for rule in POD_RULES if rule.cel)


@dataclass(frozen=True)
class Case:
    """One file."""

    name: str
    pod: Json
    expect: Json
    old: Json | None = None
    namespace: Json = field(default_factory=dict)

    @property
    def codes(self) -> list[str]:
        return list(self.expect.get("codes", []))

    @property
    def offline_codes(self) -> list[str]:
        return list(self.expect.get("check", self.codes))

    @property
    def policy_codes(self) -> list[str]:
        """Codes of which one must be given where only policies decide; empty where the pod is created."""
        return list(self.expect.get("policies", [code for code in self.codes if code in _DECIDED_BY_API]))

    @property
    def namespace_name(self) -> str:
        return str(self.namespace.get("name", "team-a"))

    @property
    def namespace_object(self) -> Json:
        labels = self.namespace.get("labels", OPTED_IN)
        annotations = self.namespace.get("annotations", {})
        metadata = {"name": self.namespace_name, "labels": labels, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def check_pod(self, pod: Json) -> None:
        """Check that the completed pod is as the case says."""
        for pointer, value in self.expect.get("becomes", {}).items():
            assert jsonpointer.resolve_pointer(pod, pointer, None) == value, pointer
        for pointer in self.expect.get("absent", []):
            assert jsonpointer.resolve_pointer(pod, pointer, None) is None, pointer

    def check_texts(self, message: str, warnings: list[str]) -> None:
        """Check that the message and the warnings hold the texts of the case."""
        for text in self.expect.get("says", []):
            assert text in message
        for text in self.expect.get("warnings", []):
            assert text in "\n".join(warnings)


def read_yaml(text: str) -> Any:
    """Read YAML by the library in C, which takes a tenth of the time: each test process reads hundreds of files."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def _load(path: Path) -> Case:
    return Case(name=path.stem, **read_yaml(path.read_text()))


CASES: list[Case] = [_load(path) for path in sorted(FOLDER.glob("*.yaml"))]


def review_of(pod: Any, *, namespace: str = "team-a", old: Any = None, **request: Any) -> Json:
    """Return an AdmissionReview as the API server sends it."""
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    change = {"operation": "CREATE"}
    if old is not None:
        change = {"operation": "UPDATE", "subResource": "ephemeralcontainers", "oldObject": old}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": metadata.get("name") if isinstance(metadata, dict) else None,
            "namespace": namespace,
            "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
            "object": pod,
            "dryRun": False,
            **change,
            **request,
        },
    }

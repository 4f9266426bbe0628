"""The committed manifests are the generated ones, and every rule is complete."""

from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.webhook.cases import CASES, FOLDER
from tests.webhook.refusals_page import PAGE, BadCases, examples_in, refusals_page
from webhook.__main__ import main
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import EXCLUDED_NAMESPACES
from webhook.apiserver.generated import all_rules, manifests

ROOT = Path(__file__).parents[3]
_NOT_BY_A_POD = {"AnnotationChanged", "PodOutgrown", "NamespaceValueUnknown", "InjectionLost"}
"""Shown on a real API server in `test_policies_real` and `test_webhook_real`."""


@pytest.mark.parametrize("path", list(manifests()), ids=str)
def test_a_manifest_is_not_stale(path: PurePosixPath) -> None:
    assert (ROOT / "manifests" / path).read_text() == manifests()[path], "run: nvshare-webhook policies"


def test_the_page_of_refusals_is_not_stale() -> None:
    page = refusals_page(examples_in(FOLDER))
    assert PAGE.read_text() == page, "run: python -m tests.webhook.refusals_page"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="examples from nowhere"),
        pytest.param({"x.yaml": "kind: Pod\n"}, id="examples that are none"),
    ],
)
def test_a_file_without_cases_is_named(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(BadCases, match=next(iter(files), str(tmp_path))):
        examples_in(tmp_path)


@pytest.mark.parametrize(
    ("code", "who"),
    [
        ("NamespaceExcluded", "policy"),
        ("NamespaceNotOptedIn", "policy"),
        ("NvidiaRuntimeWithoutGpu", "policy"),
        ("AnnotationChanged", "policy"),
        ("NamespacePolicyInvalid", "policy and webhook"),
        ("GuardedHostPath", "policy and webhook"),
        ("DebugContainerMount", "policy and webhook"),
        ("InjectionLost", "webhook"),
    ],
)
def test_the_page_says_who_decides(code: str, who: str) -> None:
    (row,) = [line for line in refusals_page(examples_in(FOLDER)).splitlines() if line.startswith(f"| [{code}]")]
    assert row.endswith(f" | {who} |")


def test_every_code_has_a_case_that_earns_it() -> None:
    earned = {code for case in CASES for code in (*case.codes, *case.offline_codes)}
    assert {rule.code for rule in all_rules()} - earned == _NOT_BY_A_POD


def test_codes_are_unique() -> None:
    codes = [rule.code for rule in all_rules()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("rule", list(all_rules()), ids=lambda rule: rule.code)
def test_a_refusal_is_a_cause_and_a_remedy_in_one_line_each(rule: object) -> None:
    cause, remedy = rule.cause, rule.remedy  # type: ignore[attr-defined]
    assert cause.endswith((".", "}."))
    assert remedy.endswith(".")
    assert "\n" not in cause + remedy


def test_the_command_writes_the_same(tmp_path: Path) -> None:
    assert main(["policies", "--out", str(tmp_path / "manifests")]) == 0
    for path, content in manifests().items():
        assert (tmp_path / "manifests" / path).read_text() == content
        assert list(yaml.safe_load_all(content))


@pytest.mark.parametrize("path", list(manifests()), ids=str)
def test_every_selector_by_our_label_leaves_the_systems_namespaces_alone(path: PurePosixPath) -> None:
    """Keep our daemons safe from `kubectl label namespaces --all`; only the gate covers namespaces that are not in."""
    spared = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(EXCLUDED_NAMESPACES)}
    for item in yaml.safe_load_all(manifests()[path]):
        for selector in _namespace_selectors(item):
            if any(part["operator"] == "In" and part["key"] == "nvshare.com/injection" for part in selector):
                assert spared in selector, item["metadata"]["name"]


def _policies_on(operation: str, resources: tuple[str, ...]) -> list[Json]:
    found = yaml.safe_load_all(manifests()[PurePosixPath("base/policies.yaml")])
    policies = (item for item in found if item["kind"] == "ValidatingAdmissionPolicy")
    return [item for item in policies if _matches(item, operation, resources)]


def _matches(policy: Json, operation: str, resources: tuple[str, ...]) -> bool:
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    return any(operation in rule["operations"] and set(resources) & set(rule["resources"]) for rule in rules)


def _selects_by_our_label(policy: Json) -> bool:
    selector = policy["spec"]["matchConstraints"].get("objectSelector")
    return bool(selector == {"matchExpressions": [{"key": "nvshare.com/vgpu", "operator": "Exists"}]})


def test_every_policy_on_changes_of_pods_selects_them_by_our_label() -> None:
    """Spare the API server two conversions for each change of any pod: 65 ms for 60,000 annotations."""
    found = _policies_on("UPDATE", ("pods", "pods/status"))

    assert [item["metadata"]["name"] for item in found] == ["nvshare-pod-changes"]
    assert all(map(_selects_by_our_label, found))


def test_one_policy_looks_at_a_created_pod_without_our_label() -> None:
    """Spare the API server further conversions: each takes 33 ms for 60,000 annotations."""
    found = [item for item in _policies_on("CREATE", ("pods",)) if not _selects_by_our_label(item)]

    # The bindings of the two select different namespaces.
    assert [item["metadata"]["name"] for item in found] == ["nvshare-gate", "nvshare-pods"]


def _namespace_selectors(item: Json) -> list[list[Json]]:
    webhooks = [webhook["namespaceSelector"] for webhook in item.get("webhooks", [])]
    bound = item.get("spec", {}).get("matchResources", {}).get("namespaceSelector")
    return [found["matchExpressions"] for found in (*webhooks, bound) if found]


def test_the_webhooks_leave_the_systems_namespaces_alone() -> None:
    for content in (manifests()[path] for path in manifests() if path.name == "webhooks.yaml"):
        for configuration in yaml.safe_load_all(content):
            (webhook,) = configuration["webhooks"]
            first, second = webhook["namespaceSelector"]["matchExpressions"]
            assert (first["operator"], first["values"]) == ("NotIn", list(EXCLUDED_NAMESPACES))
            assert (second["key"], second["values"]) == ("nvshare.com/injection", ["enabled", "warn"])
            assert "caBundle" not in webhook["clientConfig"]

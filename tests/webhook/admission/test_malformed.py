"""Bodies and pods that are malformed are told which field is wrong; rules on values that cannot be read."""

import json
from typing import Any

import pytest

from tests.fakes.pods import container, pod
from tests.webhook.cases import OPTED_IN, review_of
from webhook.admission.decision import Stage, Verdict, Volumes, decide, gather
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import policy_of
from webhook.admission.patch import append_all, prepend_all
from webhook.admission.pod import read_pod
from webhook.admission.review import Answer, answer, parse, read_request, uid_in
from webhook.admission.rule import Scope
from webhook.admission.rules import NAMESPACE_RULES, POD_RULES
from webhook.errors import MalformedObject, MalformedReview


# ---------------------------------------------------------------------------------------------- bodies
@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"[]", "is not a JSON object", id="a list"),
        pytest.param(b"1", "is not a JSON object", id="a number"),
        pytest.param(b"{", r"is not JSON \(Expecting property name", id="the half of one"),
        pytest.param(b"\xff", r"is not JSON \('utf-8' codec", id="no text"),
        pytest.param(b'{"a": NaN}', r"is not JSON \(NaN is not a JSON value\)", id="not a number"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="nested without end"),
    ],
)
def test_a_body_that_is_no_review_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(MalformedReview, match=says):
        parse(body)


def test_a_body_is_read_as_it_is() -> None:
    assert parse(b'{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize(
    ("review", "uid"),
    [
        ({"request": {"uid": "a" * 128}}, "a" * 128),
        ({"request": {"uid": "a" * 129}}, ""),
        ({"request": {"uid": 7}}, ""),
        ({"request": []}, ""),
        ({}, ""),
    ],
    ids=["a long one", "one too long", "a number", "no request", "nothing"],
)
def test_the_uid_is_found_in_any_review(review: Json, uid: str) -> None:
    assert uid_in(review) == uid


# ---------------------------------------------------------------------------------------------- pods
def _resources(number: int) -> dict[str, str]:
    return {f"example.com/r{index}": "1" for index in range(number)}


def _with(**fields: Any) -> Json:
    made = pod(container("main", 1))
    made["spec"]["containers"][0].update(fields)
    return made


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        pytest.param(_with(env=[{"name": 1}]), "'name' must be text, not int", id="a variable's name"),
        pytest.param(_with(env=[{"name": "A", "value": 1}]), "'value' must be text, not int", id="a variable's value"),
        pytest.param(
            _with(env=[{"name": "LD_PRELOAD", "valueFrom": 1}]), "'valueFrom' must be an object", id="a source"
        ),
        pytest.param(
            _with(volumeMounts=[{"name": [], "mountPath": "/a"}]), "'name' must be text, not list", id="a mount"
        ),
        pytest.param(_with(volumeMounts=[{"name": "a", "mountPath": 1}]), "'mountPath' must be text", id="a path"),
        pytest.param(_with(volumeDevices=[{"name": 1, "devicePath": "/a"}]), "'name' must be text", id="a device"),
        pytest.param(_with(volumeDevices=[{"name": "a", "devicePath": 1}]), "'devicePath' must be text", id="its path"),
        pytest.param(_with(env="A"), "'env' must be a list, not str", id="no list"),
        pytest.param(_with(env=["A"]), "'env' must be a list of objects, not str", id="a list of texts"),
        pytest.param(
            pod(container("main", 1), annotations={"a": 1}),  # type: ignore[dict-item]
            "'annotations.a' must be text",
            id="an annotation",
        ),
    ],
)
def test_a_field_of_another_type_is_named(raw: Json, says: str) -> None:
    with pytest.raises(MalformedObject, match=says):
        read_pod(raw)


@pytest.mark.parametrize("fields", [{"volumeMounts": [{"name": "a"}]}, {"env": None}, {"volumeMounts": None}], ids=str)
def test_a_field_that_is_missing_or_null_is_empty(fields: Json) -> None:
    assert read_pod(_with(**fields)).containers[0].env == []


# ---------------------------------------------------------------------------------------------- answers
def _answer(raw: Json, namespace: dict[str, str] | None = None, old: Json | None = None, **words: str) -> Answer:
    annotations = {f"nvshare.com/{key.replace('_', '-')}": text for key, text in words.items()}
    policy = policy_of("team-a", OPTED_IN if namespace is None else namespace, annotations)
    return answer(read_request(review_of(raw, old=old), Stage.MUTATE), policy, volumes=Volumes.AUTO)


def _response(found: Answer) -> Json:
    said: Json = json.loads(found.body)
    assert (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Json = said["response"]
    return response


def test_a_refusal_has_a_cause_for_each_code() -> None:
    response = _response(_answer(pod(container("main", 3), annotations={"nvshare.com/weight": "0"})))

    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"], response["status"]["status"]) == (
        403,
        "Forbidden",
        "Failure",
    )
    assert [cause["reason"] for cause in response["status"]["details"]["causes"]] == ["BadValue", "MultiGpuWithoutMode"]
    assert response["auditAnnotations"] == {"verdict": "denied", "codes": "BadValue,MultiGpuWithoutMode"}
    assert "patch" not in response


def test_a_plain_allowance_says_nothing_else() -> None:
    response = _response(_answer(pod(container("main", None))))

    assert response == {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": True}


def test_a_completed_pod_is_noted_without_codes() -> None:
    response = _response(_answer(pod(container("main", 1))))

    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert response["auditAnnotations"] == {"verdict": "completed"}


# ---------------------------------------------------------------------------------------------- unreadable values
def test_a_value_that_cannot_be_read_is_bad_and_not_above_its_ceiling() -> None:
    found = _answer(pod(container("main", 1), annotations={"nvshare.com/weight": "much"}), max_weight="50")

    assert list(found.decision.codes) == ["BadValue"]


@pytest.mark.parametrize(("allow", "codes"), [("host-pid", ["PrivilegedDebugContainer"]), ("privileged", [])])
def test_a_privileged_debug_container_needs_the_grant_of_its_namespace(allow: str, codes: list[str]) -> None:
    old = pod(container("main", 1))
    new = pod(container("main", 1))
    new["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i", "securityContext": {"privileged": True}}]

    assert list(_answer(new, old=old, allow=allow).decision.codes) == codes


def test_each_problem_of_a_namespace_is_named() -> None:
    (rule,) = NAMESPACE_RULES
    policy = policy_of("team-a", OPTED_IN, {"nvshare.com/max-gpus": "0", "nvshare.com/weight": "1"})

    found = rule.find(policy)
    assert [text.partition(" ")[0] for text in found] == ["nvshare.com/max-gpus:", "annotation"]
    assert rule.find(policy_of("team-a", OPTED_IN, {})) == ()


def test_a_label_without_a_vgpu_is_found_in_any_namespace_but_the_systems() -> None:
    made = pod(container("main", None))
    made["metadata"]["labels"] = {"nvshare.com/vgpu": "true"}
    (rule,) = [rule for rule in POD_RULES if rule.code == "LabelWithoutVgpu"]

    assert rule.find(gather(read_pod(made), policy_of("a", {}, {}))) == ("nvshare.com/vgpu",)
    assert rule.find(gather(read_pod(pod(container("main", None))), policy_of("a", {}, {}))) == ()
    assert list(_answer(made, namespace={}).decision.codes) == ["LabelWithoutVgpu"]


def test_a_warning_stands_in_the_answer() -> None:
    response = _response(_answer(pod(container("main", 1)), namespace={"nvshare.com/injection": "warn"}))

    (warning,) = response["warnings"]
    assert "would complete this pod" in warning


@pytest.mark.parametrize(("default", "problems"), [("1Gi", 0), ("2Gi", 1)])
def test_a_default_may_be_as_large_as_its_ceiling_and_not_larger(default: str, problems: int) -> None:
    words = {"nvshare.com/default-memory": default, "nvshare.com/max-memory": "1Gi"}

    assert len(policy_of("team-a", OPTED_IN, words).problems) == problems


@pytest.mark.parametrize("others", [(), (container("good", 1),)], ids=["alone", "beside a good one"])
def test_a_quantity_that_the_api_server_refuses_is_named_in_a_file(others: tuple[Json, ...]) -> None:
    made = pod(container("main", None), *others)
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvshare.com/gpu": "-2"}}

    decision = decide(gather(read_pod(made), policy_of("team-a", OPTED_IN, {})), Stage.OFFLINE)

    assert "IllegalQuantity" in decision.codes
    assert "container 'main'." in decision.message


def test_a_quantity_that_the_api_server_refuses_is_left_to_it() -> None:
    made = pod(container("main", None), container("good", 1))
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvshare.com/gpu": "-2"}}

    decision = _answer(made).decision
    assert (decision.verdict, decision.patch) == (Verdict.ALLOWED, ())


@pytest.mark.parametrize(
    ("kind", "vgpus"), [("annotations", 1), ("labels", 1), ("annotations", None), ("labels", None)]
)
@pytest.mark.parametrize("number", [1000, 1001])
def test_a_pod_with_a_vgpu_has_a_thousand_keys_of_a_kind_at_most(kind: str, vgpus: int | None, number: int) -> None:
    made = pod(container("main", vgpus))
    made["metadata"][kind] = {f"k{index}": "" for index in range(number)}
    is_refused = number > 1000 and vgpus is not None

    found = _answer(made).decision
    assert list(found.codes) == (["PodTooLarge"] if is_refused else [])
    assert (f"{number} {kind} (at most 1000)" in found.message) is is_refused


@pytest.mark.parametrize(("labels", "problems"), [(OPTED_IN, 1), ({}, 0)], ids=["opted in", "elsewhere"])
def test_a_namespace_with_shared_gpus_has_a_thousand_keys_of_a_kind_at_most(
    labels: dict[str, str], problems: int
) -> None:
    words = {f"k{index}": "" for index in range(1001)}

    assert len(policy_of("team-a", labels, words).problems) == problems


def test_an_unknown_label_of_a_namespace_is_named() -> None:
    found = policy_of("team-a", {**OPTED_IN, "nvshare.com/inject": "x"}, {}).problems

    assert found == ("label nvshare.com/inject is not one we know",)


# ---------------------------------------------------------------------------------------------- fields without a value
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"volumeDevices": [{"name": "data"}]}, id="a device without a path"),
        pytest.param({"volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]}, id="a device like any other"),
        pytest.param({"envFrom": [{}], "env": [{"name": "LD_AUDIT"}]}, id="a variable without a value, as we write it"),
    ],
)
def test_what_has_no_value_breaks_no_rule(fields: Json) -> None:
    assert _answer(_with(**fields)).decision.codes == ()


def test_a_rule_that_finds_nothing_returns_an_empty_tuple() -> None:
    policy = policy_of("team-a", OPTED_IN, {"nvshare.com/allow": "host-path"})
    facts = gather(read_pod(pod(container("main", 1))), policy)
    found = {rule.code: rule.find(facts) for rule in POD_RULES if rule.scope is not Scope.FINAL}

    assert set(found.values()) == {()}


# ---------------------------------------------------------------------------------------------- limits
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param(
            {"resources": {"limits": {"nvshare.com/gpu": "1"} | _resources(999)}}, None, id="a thousand limits"
        ),
        pytest.param(
            {"resources": {"limits": {"nvshare.com/gpu": "1"} | _resources(1000)}},
            "1001 limits and requests",
            id="a limit too many",
        ),
        pytest.param(
            {"resources": {"limits": {"nvshare.com/gpu": "1"}, "requests": _resources(1000)}},
            "1001 limits and requests",
            id="a request too many",
        ),
        pytest.param(
            {"volumeDevices": [{"name": "data", "devicePath": "/" + "d" * 32_767}]}, None, id="a device's long path"
        ),
        pytest.param(
            {"volumeDevices": [{"name": "data", "devicePath": "/" + "d" * 32_768}]},
            "32769 characters in the paths",
            id="a device's path too long",
        ),
    ],
)
def test_requests_count_beside_limits_and_paths_of_devices_beside_those_of_mounts(
    fields: Json, says: str | None
) -> None:
    found = _answer(_with(**fields)).decision

    assert list(found.codes) == ([] if says is None else ["PodTooLarge"])
    assert (says or "") in found.message


# ---------------------------------------------------------------------------------------------- the user's LD_PRELOAD
@pytest.mark.parametrize(
    ("last", "removed"),
    [
        pytest.param("/b.so", ["/spec/containers/0/env/0"], id="the last counts, so the first goes"),
        pytest.param("$(LD_PRELOAD):/b.so", [], id="the last refers to the first, so both stay"),
    ],
)
def test_of_two_preloads_the_first_stays_only_where_the_last_refers_to_it(last: str, removed: list[str]) -> None:
    env = [{"name": "LD_PRELOAD", "value": text} for text in ("/a.so", last)]

    patch = _answer(_with(env=env)).decision.patch
    assert [operation["path"] for operation in patch if operation["op"] == "remove"] == removed


def test_nothing_to_append_is_no_operation() -> None:
    assert append_all("/spec/volumes", [], []) == prepend_all("/spec/volumes", [], []) == []

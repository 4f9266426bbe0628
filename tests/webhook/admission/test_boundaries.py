"""The exact text and number at which small rules of admission turn over."""

import pytest

from contract.words import paths
from contract.words.reasons import ReasonCode
from tests.webhook.cases import review_of
from webhook.admission.decision import Stage, Volumes
from webhook.admission.injected import preload_with_hook
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import read_namespace
from webhook.admission.pod import read_pod
from webhook.admission.review import Answer, answer, read_request
from webhook.admission.rule import Rule
from webhook.errors import MalformedObject, MalformedReview

HOOK = paths.CONTAINER_HOOK


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", HOOK, id="none: the hook alone"),
        pytest.param(HOOK, HOOK, id="the hook alone is left as it is"),
        pytest.param(f"{HOOK}:/a b", f"{HOOK}:/a b", id="the hook in front is left as it is"),
        pytest.param(f"/a:{HOOK}", f"{HOOK}:/a", id="the hook comes to the front"),
        pytest.param(f"{HOOK}:/a:{HOOK}", f"{HOOK}:/a", id="the hook stands once"),
        pytest.param("/a /b", f"{HOOK}:/a:/b", id="the user's own follow it"),
        pytest.param(f"{HOOK}x", f"{HOOK}:{HOOK}x", id="a name that begins alike is another"),
    ],
)
def test_the_preload_begins_with_the_hook_once(before: str, after: str) -> None:
    assert preload_with_hook(before) == after


@pytest.mark.parametrize(
    ("found", "says"),
    [(1, "0"), (8, "0, 1, 2, 3, 4, 5, 6, 7"), (9, "0, 1, 2, 3, 4, 5, 6, 7 and 1 more")],
)
def test_a_refusal_names_eight_and_counts_the_rest(found: int, says: str) -> None:
    rule: Rule[None] = Rule(code=ReasonCode("Code"), cause="It is {found}.", remedy="Change it.", find=lambda _: ())
    refusal = rule.refusal(tuple(str(number) for number in range(found)))

    assert (refusal.code, refusal.cause, refusal.remedy) == ("Code", f"It is {says}.", "Change it.")


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"limits": {"a": "1"}}, {"a": "1"}, id="limits alone"),
        pytest.param({"requests": {"a": "1"}}, {"a": "1"}, id="requests alone"),
        pytest.param({"limits": {"a": "1"}, "requests": {"a": "2", "b": "3"}}, {"a": "1", "b": "3"}, id="limits first"),
    ],
)
def test_the_resources_of_a_container_are_its_requests_under_its_limits(resources: Json, expected: Json) -> None:
    pod = read_pod({"spec": {"containers": [{"name": "main", "resources": resources}]}})

    assert pod.containers[0].resources == expected


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"apiVersion": "admission.k8s.io/v1beta1"}, "are not known", id="another version"),
        pytest.param({"kind": "Review"}, "are not known", id="another kind"),
        pytest.param({"request": {}}, "no request.uid", id="no request"),
    ],
)
def test_an_envelope_that_is_none_of_ours_is_refused(change: Json, says: str) -> None:
    with pytest.raises(MalformedReview, match=says):
        _answer({**review_of({"spec": {}}), **change})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"operation": "DELETE"}, "is not ours to review", id="a deletion"),
        pytest.param({"operation": "UPDATE"}, "is not ours to review", id="a change of the pod itself"),
        pytest.param({"subResource": "ephemeralcontainers"}, "is not ours to review", id="a creation below a pod"),
        pytest.param({"operation": "UPDATE", "subResource": "status"}, "is not ours to review", id="its status"),
        pytest.param({"resource": {"group": "x", "version": "v1", "resource": "pods"}}, "not ours", id="a group"),
        pytest.param({"resource": {"group": "", "version": "v2", "resource": "pods"}}, "not ours", id="a version"),
        pytest.param({"resource": {"group": "", "version": "v1", "resource": "jobs"}}, "not ours", id="a resource"),
        pytest.param({"object": {}}, "no request.object", id="no pod"),
        pytest.param({"uid": ""}, "no request.uid", id="no uid"),
    ],
)
def test_a_request_that_is_none_of_ours_is_refused(change: Json, says: str) -> None:
    with pytest.raises(MalformedReview, match=says):
        _answer(review_of({"spec": {}}, **change))


@pytest.mark.parametrize(("dry_run", "expected"), [(True, True), (False, False), (None, False)])
def test_an_answer_knows_its_pod_and_whether_it_is_a_trial(dry_run: object, expected: bool) -> None:
    result = _answer(review_of({"metadata": {"generateName": "web-"}, "spec": {}}, dryRun=dry_run))

    asked = result.request
    assert (asked.is_dry_run, asked.pod_name, asked.namespace) == (expected, "web-", "team-a")


def _answer(review: Json) -> Answer:
    namespace = read_namespace({"metadata": {"name": "team-a", "labels": {"nvshare.com/injection": "enabled"}}})
    return answer(read_request(review, Stage.MUTATE), namespace, volumes=Volumes.AUTO)


@pytest.mark.parametrize("volume", [{"hostPath": 1}, {"hostPath": {"path": 1}}, {"name": 1}])
def test_a_volume_with_odd_types_is_refused(volume: Json) -> None:
    with pytest.raises(MalformedObject):
        read_pod({"spec": {"volumes": [volume]}})

"""Every case file, decided in Python: as a review would be, and its completed pod given again."""

import base64
import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from tests.webhook.cases import CASES, Case, review_of
from webhook.admission.decision import Stage, Volumes
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import read_namespace
from webhook.admission.review import Answer, answer, read_request


def _answer(case: Case, pod: Json, stage: Stage = Stage.MUTATE, volumes: Volumes = Volumes.AUTO) -> Answer:
    policy = read_namespace(case.namespace_object)
    review = review_of(pod, namespace=case.namespace_name, old=case.old)
    return answer(read_request(json.loads(json.dumps(review)), stage), policy, volumes=volumes)


def _completed(case: Case, result: Answer) -> Json:
    response: Any = json.loads(result.body)["response"]
    assert ("patch" in response) == ("patchType" in response)
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    completed: Json = jsonpatch.apply_patch(deepcopy(case.pod), patch)
    return completed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_review_is_answered_as_the_case_says(case: Case) -> None:
    before = deepcopy(case.pod)

    result = _answer(case, case.pod)

    assert (result.decision.verdict, list(result.decision.codes)) == (case.expect["verdict"], case.codes)
    case.check_texts(result.decision.message, list(result.decision.warnings))
    case.check_pod(_completed(case, result))
    assert case.pod == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_own_output_given_again_is_left_as_it_is(case: Case) -> None:
    first = _answer(case, case.pod)
    completed = _completed(case, first)

    again = _answer(case, completed)

    assert again.decision.patch == ()
    if first.decision.patch:
        assert again.decision.verdict == "allowed"
        assert _answer(case, completed, Stage.VALIDATE).decision.codes == ()


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.expect["verdict"] == "warned"], ids=lambda case: case.name
)
def test_a_pod_that_is_only_warned_of_is_not_refused_as_incomplete(case: Case) -> None:
    assert list(_answer(case, case.pod, Stage.VALIDATE).decision.codes) == case.codes


_MIXED = [(Volumes.AUTO, Volumes.NEVER), (Volumes.NEVER, Volumes.AUTO)]
_COMPLETED = [case for case in CASES if case.expect["verdict"] in ("completed", "reduced")]


@pytest.mark.parametrize(("completed", "validated"), _MIXED)
@pytest.mark.parametrize("case", _COMPLETED, ids=lambda case: case.name)
def test_a_replica_with_other_settings_finds_the_pod_complete(
    case: Case, completed: Volumes, validated: Volumes
) -> None:
    """Complete the pod by one replica and validate it by another with other settings, as during an exchange."""
    pod = _completed(case, _answer(case, case.pod, volumes=completed))

    assert _answer(case, pod, Stage.VALIDATE, volumes=validated).decision.codes == ()


_HONEST_DEBUGGER = next(case for case in CASES if case.name == "debug-container")


def test_a_debug_container_that_another_webhook_shows_gpus_again_is_refused() -> None:
    """Send both webhooks the same review; the second must find nothing left to complete."""
    decision = _answer(_HONEST_DEBUGGER, _HONEST_DEBUGGER.pod, Stage.VALIDATE).decision

    assert (decision.verdict, decision.codes, decision.patch) == ("denied", ("InjectionLost",), ())
    assert "/spec/ephemeralContainers/0/env" in decision.message


def test_a_change_that_adds_no_debug_container_is_allowed() -> None:
    old = {**_HONEST_DEBUGGER.pod, "metadata": {"name": "trainer"}}
    case = replace(_HONEST_DEBUGGER, old=old)

    assert _answer(case, old, Stage.VALIDATE).decision.verdict == "allowed"


_UNDONE = {
    "the preload": [{"op": "remove", "path": "/spec/containers/0/env/0"}],
    "a volume": [{"op": "remove", "path": "/spec/volumes/0"}],
    "a mount": [{"op": "remove", "path": "/spec/containers/0/volumeMounts/0"}],
    "the label": [{"op": "remove", "path": "/metadata/labels"}],
    "the label's value": [{"op": "replace", "path": "/metadata/labels/nvshare.com~1vgpu", "value": ""}],
    "the summary": [{"op": "remove", "path": "/metadata/annotations/nvshare.com~1injected"}],
    "the summary's form": [{"op": "replace", "path": "/metadata/annotations/nvshare.com~1injected", "value": "v1"}],
}


@pytest.mark.parametrize("undo", _UNDONE.values(), ids=_UNDONE)
def test_a_completion_that_another_webhook_undoes_is_refused(undo: list[Json]) -> None:
    case = next(case for case in CASES if case.name == "one-vgpu")
    pod = jsonpatch.apply_patch(_completed(case, _answer(case, case.pod)), undo)

    assert _answer(case, pod, Stage.VALIDATE).decision.codes == ("InjectionLost",)

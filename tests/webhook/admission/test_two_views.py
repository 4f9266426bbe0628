"""Two replicas, one of which has not yet seen what changed in a namespace: one completes the pod, the other validates.

The second refuses what the new words forbid, and in their sentence; it never blames another webhook for the first.
"""

import json
from copy import deepcopy

import pytest

from tests.fakes.pods import container, pod
from tests.webhook.admission.properties import completed_by
from tests.webhook.cases import OPTED_IN, review_of
from webhook.admission.decision import Decision, Stage, Volumes
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import policy_of
from webhook.admission.review import Answer, answer, read_request

Words = dict[str, str]
_GANG, _PER_DEVICE = {"nvshare.com/multi-gpu": "gang"}, {"nvshare.com/multi-gpu": "per-device"}
_REDUCE = {"nvshare.com/on-multi-gpu": "reduce"}


def _answer(raw: Json, stage: Stage, words: Words) -> Answer:
    policy = policy_of("team-a", OPTED_IN, words)
    return answer(read_request(review_of(deepcopy(raw)), stage), policy, volumes=Volumes.AUTO)


def _completed(raw: Json, words: Words) -> Json:
    return completed_by(json.loads(_answer(raw, Stage.MUTATE, words).body)["response"], raw)


def _validated(raw: Json, words: Words) -> Decision:
    return _answer(raw, Stage.VALIDATE, words).decision


@pytest.mark.parametrize(
    ("one", "other", "vgpus"),
    [
        pytest.param({}, {"nvshare.com/default-memory": "8Gi"}, 1, id="a default memory"),
        pytest.param({}, {"nvshare.com/max-memory": "8Gi"}, 1, id="a ceiling, which is a default, too"),
        pytest.param(
            {"nvshare.com/default-weight": "5"}, {"nvshare.com/default-weight": "50"}, 1, id="another default weight"
        ),
        pytest.param(_GANG, _PER_DEVICE, 2, id="another mode"),
        pytest.param(_REDUCE, _REDUCE | {"nvshare.com/default-memory": "8Gi"}, 2, id="a default of a reduced pod"),
    ],
)
def test_a_change_that_one_replica_has_not_seen_refuses_no_pod(one: Words, other: Words, vgpus: int) -> None:
    sent = pod(container("main", vgpus))

    for first, second in ((one, other), (other, one)):
        assert _validated(_completed(sent, first), second).codes == ()


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        pytest.param(_REDUCE, {}, (), id="a reduced pod, where none are any more"),
        pytest.param(_REDUCE, _GANG, (), id="a reduced pod, where several are used as one"),
        pytest.param(_GANG, {}, ("MultiGpuWithoutMode",), id="a mode that is gone"),
        pytest.param(_GANG, _REDUCE, ("MultiGpuWithoutMode",), id="a mode that is gone: only /mutate could reduce"),
        pytest.param(
            _GANG, {**_GANG, "nvshare.com/max-gpus": "1"}, ("TooManyGpus",), id="a ceiling that was not there"
        ),
    ],
)
def test_a_pod_that_the_changed_namespace_forbids_is_refused_by_that_rule(
    first: Words, second: Words, codes: tuple[str, ...]
) -> None:
    assert _validated(_completed(pod(container("main", 2)), first), second).codes == codes


_FORGED = {"nvshare.com/injected": "v1 main=gang volumes"}


def test_a_summary_of_the_users_own_does_not_outlive_the_completion() -> None:
    sent = pod(container("main", 2), annotations=_FORGED)

    made = _completed(sent, _PER_DEVICE)

    assert made["metadata"]["annotations"] == {"nvshare.com/injected": "v1 main=per-device volumes"}
    assert {"name": "NVSHARE_MODE", "value": "per-device"} in made["spec"]["containers"][0]["env"]


def test_a_mode_other_than_the_completers_is_refused_afterwards() -> None:
    made = _completed(pod(container("main", 2)), _PER_DEVICE)
    text = json.dumps(made).replace('"value": "per-device"', '"value": "gang"')

    assert _validated(json.loads(text), _GANG).codes == ("GuardedVariable",)


def test_a_pod_that_was_never_completed_is_refused_whatever_its_summary_says() -> None:
    sent = pod(container("main", 2), annotations=_FORGED)

    assert _validated(sent, _GANG).codes == ("InjectionLost",)

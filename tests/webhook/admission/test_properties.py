"""Properties of the decision over generated pods, and of the small grammars that rules stand on."""

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.random_pods import random_namespace, random_pod
from tests.webhook.admission.properties import check_properties
from tests.webhook.cases import OPTED_IN, review_of
from webhook.admission.decision import Stage, Volumes
from webhook.admission.host_paths import resolve, touches
from webhook.admission.injected import preload_with_hook
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import policy_of
from webhook.admission.patch import escape
from webhook.admission.pod import count_vgpus, read_pod
from webhook.admission.review import answer, parse, read_request

_HOOK = "/usr/lib/nvshare/libnvshare.so"


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_patch_applies_changes_only_what_is_ours_and_once_is_enough(random: Random) -> None:
    pod = random_pod(random)
    policy = policy_of("team-a", OPTED_IN, random_namespace(random))

    def ask(sent: Json) -> Json:
        review = parse(json.dumps(review_of(sent)).encode())
        result = answer(read_request(review, Stage.MUTATE), policy, volumes=Volumes.AUTO)
        response: Json = json.loads(result.body)["response"]
        return response

    check_properties(pod, ask)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["usr", "lib", "nvshare", ".", "..", "", "x", "run", "var"]), max_size=8))
def test_a_resolved_path_is_in_its_one_form(parts: list[str]) -> None:
    resolved = resolve("/" + "/".join(parts))

    assert resolve(resolved) == resolved
    assert resolved.startswith("/")
    assert not {"", ".", ".."} & set(resolved.split("/")[1:] if resolved != "/" else [])
    assert not resolved.startswith("/run/")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["usr", "lib", "nvshare"]), max_size=4),
    st.lists(st.sampled_from(["usr", "lib"]), max_size=4),
)
def test_touching_is_mutual(one: list[str], other: list[str]) -> None:
    first, second = resolve("/".join(one)), resolve("/".join(other))
    assert touches(first, second) == touches(second, first)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="/ab.:so ", max_size=40))
def test_the_hook_stands_first_once_and_stays_so(text: str) -> None:
    merged = preload_with_hook(text)

    assert preload_with_hook(merged) == merged
    assert merged.split(":")[0] == _HOOK
    assert merged.count(_HOOK) == 1
    assert [part for part in text.replace(":", " ").split(" ") if part] == merged.split(":")[1:]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20))
def test_an_escaped_key_is_one_step_of_a_pointer(key: str) -> None:
    escaped = escape(key)
    assert "/" not in escaped
    assert escaped.replace("~1", "/").replace("~0", "~") == key


_CONTAINERS = st.lists(st.tuples(st.sampled_from(["init", "sidecar"]), st.integers(0, 4)), max_size=5)


@settings(max_examples=60, deadline=None)
@given(_CONTAINERS, st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_a_pod_is_counted_as_the_most_it_holds_at_any_moment(
    before: list[tuple[str, int]], ordinary: list[int]
) -> None:
    pod = read_pod(
        {"spec": {"initContainers": [_initial(*item) for item in before], "containers": [_limits(n) for n in ordinary]}}
    )

    running, most = 0, 0
    for kind, amount in before:
        most = max(most, running + amount)
        running += amount if kind == "sidecar" else 0
    assert count_vgpus(pod.containers) == max(most, running + sum(ordinary))


def _limits(amount: int) -> Json:
    return {"name": "c", "resources": {"limits": {"nvshare.com/gpu": str(amount)}}}


def _initial(kind: str, amount: int) -> Json:
    return {**_limits(amount), **({"restartPolicy": "Always"} if kind == "sidecar" else {})}

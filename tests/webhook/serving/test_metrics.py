"""The counts of a pod that comes to both webhooks."""

import pytest

from tests.fakes.pods import container, pod
from tests.webhook.cases import review_of
from webhook.admission.decision import Stage, Volumes
from webhook.admission.namespace_policy import policy_of
from webhook.admission.review import answer, read_request
from webhook.serving.metrics import Metrics


@pytest.mark.parametrize("injection", ["enabled", "warn"])
def test_a_violation_counts_once_a_pod(injection: str) -> None:
    metrics, policy = Metrics(), policy_of("team-a", {"nvshare.com/injection": injection}, {})
    for stage in (Stage.MUTATE, Stage.VALIDATE):
        review = review_of(pod(container("main", 2)))
        result = answer(read_request(review, stage), policy, volumes=Volumes.AUTO)
        metrics.count(f"/{stage}", result, seconds=0.001, bytes_in=100)
        if injection == "enabled":
            break  # the API server does not go on with a pod that is refused

    assert metrics.registry.get_sample_value(
        "nvshare_webhook_violations_total", {"code": "MultiGpuWithoutMode"}
    ) == pytest.approx(1)

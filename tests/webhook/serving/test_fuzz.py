"""A tenth of the fuzzing drills, in every test run."""

import pytest

from tests.webhook.serving.fuzz_runs import fuzz_pods, fuzz_raw

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_a_tenth_of_the_raw_mutations() -> None:
    assert "times 200" in fuzz_raw(100_000)


@pytest.mark.timeout(600)
def test_a_tenth_of_the_generated_pods() -> None:
    assert "completed" in fuzz_pods(2_000)

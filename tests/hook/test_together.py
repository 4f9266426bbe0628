"""Several GPUs, several processes: collectives in a gang that shares its GPUs, and independent work a GPU."""

import pytest

from tests.hook import measure

pytestmark = pytest.mark.slow


def test_a_job_of_two_processes_with_collectives_gets_its_share_though_it_yields() -> None:
    """Without the processes' ending a turn together each yield would stand until the grace has passed."""
    sharing = measure.measure_parallel(4, quantum="200ms")

    assert sharing.gang > 0.3
    assert sharing.busy > 0.75


def test_two_threads_on_two_gpus_share_each_with_another() -> None:
    sharing = measure.measure_per_device(4, quantum="200ms")

    assert sharing.gang > 0.4
    assert sharing.singles > 0.4
    assert sharing.busy > 0.9


def test_a_gang_of_two_gpus_in_one_process_has_both_or_none() -> None:
    sharing = measure.measure_per_device(4, quantum="200ms", mode="gang")

    assert sharing.gang > 0.3
    assert sharing.busy > 0.85

"""Every drill, small: that it runs, and that what it guards holds; `make drills` has the full counts."""

import pytest

from tests.schedulerd.faults import deaths, noise
from tests.schedulerd.protocol.fuzz import fuzz


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda: deaths.two_die_together(10), id="holder and next waiter die together"),
        pytest.param(lambda: deaths.kill_the_turn_process(1), id="the turn process is killed"),
        pytest.param(lambda: deaths.kill_the_observer(1), id="the observer is killed"),
        pytest.param(deaths.stopped_holder, id="a holder is stopped"),
        pytest.param(lambda: deaths.killed_with_a_forked_child_alive(1), id="a forked child outlives the holder"),
        pytest.param(lambda: noise.flood(1), id="a client floods"),
        pytest.param(noise.never_reads, id="a client never reads"),
        pytest.param(lambda: noise.half_lines_and_megabytes(3), id="half lines and megabytes"),
        pytest.param(lambda: noise.many_connections(500), id="many connections"),
        pytest.param(lambda: noise.clock_steps(40), id="the wall clock steps"),
        pytest.param(lambda: noise.a_real_minute(4), id="gangs over real sockets"),
        pytest.param(lambda: noise.a_and_b_on_gpu_1(2), id="A on GPU 1 and B on GPUs 1 and 2"),
        pytest.param(noise.a_silent_scraper, id="silent connections to the metrics"),
        pytest.param(lambda: deaths.random_deaths(50), id="deaths at random moments"),
        pytest.param(lambda: fuzz(20_000), id="fuzzed lines"),
    ],
)
def test_drill(run):
    assert run()

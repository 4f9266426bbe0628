"""Every drill, small: that it runs, and that what it guards holds; `make drills` has the full counts."""

import pytest

from tests.drills.schedulerd import drill_core, drill_daemon


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda: drill_daemon.two_die_together(10), id="holder and next waiter die together"),
        pytest.param(lambda: drill_daemon.kill_the_turn_process(1), id="the turn process is killed"),
        pytest.param(lambda: drill_daemon.kill_the_observer(1), id="the observer is killed"),
        pytest.param(drill_daemon.stopped_holder, id="a holder is stopped"),
        pytest.param(lambda: drill_daemon.killed_with_a_forked_child_alive(1), id="a forked child outlives the holder"),
        pytest.param(lambda: drill_daemon.flood(1), id="a client floods"),
        pytest.param(drill_daemon.never_reads, id="a client never reads"),
        pytest.param(lambda: drill_daemon.half_lines_and_megabytes(3), id="half lines and megabytes"),
        pytest.param(lambda: drill_daemon.many_connections(500), id="many connections"),
        pytest.param(lambda: drill_daemon.clock_steps(40), id="the wall clock steps"),
        pytest.param(lambda: drill_daemon.a_real_minute(4), id="gangs over real sockets"),
        pytest.param(lambda: drill_daemon.a_and_b_on_gpu_1(2), id="A on GPU 1 and B on GPUs 1 and 2"),
        pytest.param(drill_daemon.a_silent_scraper, id="silent connections to the metrics"),
        pytest.param(lambda: drill_daemon.random_deaths(50), id="deaths at random moments"),
        pytest.param(lambda: drill_core.fuzz(20_000), id="fuzzed lines"),
    ],
)
def test_drill(run):
    assert run()

"""The faults that kill a scheduler, tried on this one: real processes, real sockets, full counts.

Each fault that other projects' daemons show has a drill here: deaths when two clients end, a silent holder, a forked
child, an open control socket, a clock step, a client that thinks.
"""

from tests.runners.drills import Drill, count
from tests.schedulerd.faults.deaths import (
    kill_the_observer,
    kill_the_turn_process,
    killed_with_a_forked_child_alive,
    random_deaths,
    stopped_holder,
    two_die_together,
)
from tests.schedulerd.faults.noise import (
    a_and_b_on_gpu_1,
    a_real_minute,
    a_silent_scraper,
    clock_steps,
    flood,
    half_lines_and_megabytes,
    many_connections,
    never_reads,
)

DRILLS = [
    Drill("holder and next waiter die together", lambda: two_die_together(count(200))),
    Drill("the turn process is killed under 50 clients", lambda: kill_the_turn_process(count(10))),
    Drill("the observer is killed under 50 clients", lambda: kill_the_observer(count(3))),
    Drill("a holder is stopped (SIGSTOP)", stopped_holder),
    Drill("a holder dies while its forked child lives", lambda: killed_with_a_forked_child_alive(count(20))),
    Drill("a client floods", lambda: flood(count(20))),
    Drill("a client never reads", never_reads),
    Drill("half lines and lines of a megabyte", lambda: half_lines_and_megabytes(count(50))),
    Drill("10,000 connections", lambda: many_connections(count(10_000))),
    Drill("the wall clock steps", lambda: clock_steps(count(400))),
    Drill("gangs, per-device and single clients for a real minute", lambda: a_real_minute(count(60))),
    Drill("A on GPU 1 and B on GPUs 1 and 2 never overlap on GPU 1", lambda: a_and_b_on_gpu_1(count(20))),
    Drill("silent connections to the metrics", a_silent_scraper),
    Drill("clients die at random moments", lambda: random_deaths(count(300))),
]

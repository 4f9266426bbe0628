"""What one container may ask of the turn loop: lines a round, lines a second, and what waiting means."""

from collections.abc import Callable

import pytest

from schedulerd.eventloop.throttle import Throttle
from schedulerd.protocol.budget import CONNECTION, NO_LIMITS, Budget, Limits, lines_in

LIMITS = Limits(lines_a_second=100, burst=100, a_round=10, resume_after=0.1)


def say(budget: Budget, lines: int, *, now: float, first_round: int = 0) -> tuple[int, int]:
    """Say lines as fast as the budget allows; return the rounds that it took, and the lines that were not said."""
    rounds = 0
    while lines:
        budget.begin_round(first_round + rounds, lambda: now)
        rounds += 1
        if budget.is_used_up:
            break
        while lines and budget.left_this_round > 0:
            budget.spend(1)
            lines -= 1
    return rounds, lines


def test_a_round_has_few_lines_for_a_container_and_the_next_round_as_many() -> None:
    assert say(Budget(LIMITS), 35, now=0.0) == (4, 0)


def test_whoever_says_more_than_its_budget_waits() -> None:
    budget = Budget(LIMITS)
    _, unsaid = say(budget, 250, now=0.0)

    assert (budget.is_used_up, unsaid) == (True, 150)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        pytest.param(0.0, 0, id="at once: none"),
        pytest.param(0.5, 50, id="half a second later: half of a second's lines"),
        pytest.param(1.0, 100, id="a second later: all"),
        pytest.param(3600.0, 100, id="an hour later: not more than the burst"),
    ],
)
def test_time_brings_lines_back(later: float, said: int) -> None:
    budget = Budget(LIMITS)
    say(budget, 250, now=5.0)
    _, unsaid = say(budget, 1000, now=5.0 + later, first_round=100)

    assert 1000 - unsaid == said


def test_in_the_long_run_a_container_says_its_lines_a_second() -> None:
    budget, said, round_number = Budget(LIMITS), 0, 0
    for step in range(1000):
        _, unsaid = say(budget, 50, now=step / 100, first_round=round_number)
        said, round_number = said + 50 - unsaid, round_number + 50

    assert said == pytest.approx(10 * 100 + 100, rel=0.05)


def test_what_was_said_too_much_is_waited_for() -> None:
    budget = Budget(LIMITS)
    budget.begin_round(1, lambda: 0.0)
    budget.spend(150)

    assert budget.resumes_at == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("size", "lines"),
    [
        pytest.param(1, 1, id="a byte costs a read"),
        pytest.param(52, 1, id="a want"),
        pytest.param(1024, 17, id="a full read"),
        pytest.param(4096, 65, id="a line as long as can be costs what it takes to read it"),
    ],
)
def test_lines_are_counted_by_their_bytes(size: int, lines: int) -> None:
    assert lines_in(size) == lines


def test_nobody_waits_where_all_share_a_socket() -> None:
    budget = Budget(NO_LIMITS)

    assert say(budget, 100_000, now=0.0) == (1, 0)


def test_the_largest_honest_container_is_back_at_once_after_a_restart() -> None:
    """Connect 256 processes that hold memory on 16 GPUs; each of their `using` lines begins a second 64 bytes."""
    limits, processes = Limits(), 256

    assert processes * (CONNECTION + 16) <= limits.burst + 0.1 * limits.lines_a_second
    assert processes * (CONNECTION + 2 * 16 + 1) <= limits.burst + 2.0 * limits.lines_a_second


class Alarms:
    """A loop's alarms, rung by hand."""

    def add_alarm(self, due: Callable[[], float], ring: Callable[[float], None]) -> None:
        self.due, self.ring = due, ring


class Source:
    """A descriptor that is waited for, or not."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def pause(self) -> None:
        self.log.append(f"-{self.name}")

    def go_on(self) -> None:
        self.log.append(f"+{self.name}")


def test_postponed_connections_go_on_in_their_order_a_round_at_a_time() -> None:
    loop, log = Alarms(), list[str]()
    throttle, budget = Throttle(loop), Budget(Limits(lines_a_second=100, burst=100, a_round=2, resume_after=0.1))
    say(budget, 1000, now=0.0)
    firsts = [throttle.postpone(budget, Source(str(number), log)) for number in range(3)]
    assert (firsts, log) == ([True, False, False], ["-0", "-1", "-2"])

    loop.ring(loop.due() - 0.001)
    assert log[3:] == []
    when = loop.due()
    loop.ring(when + 0.001)
    assert log[3:] == ["+0", "+1"]
    assert loop.due() <= when + 0.001  # at once, unless they say more
    loop.ring(when + 0.002)
    assert log[5:] == ["+2"]
    assert loop.due() == float("inf")


def test_a_container_that_waits_does_not_hold_up_another() -> None:
    loop, log = Alarms(), list[str]()
    throttle = Throttle(loop)
    poor, rich = Budget(LIMITS), Budget(LIMITS)
    say(poor, 1000, now=0.0)
    poor.spend(500)
    say(rich, 1000, now=0.0)
    throttle.postpone(poor, Source("poor", log))
    throttle.postpone(rich, Source("rich", log))
    loop.ring(1.0)

    assert log == ["-poor", "-rich", "+rich"]

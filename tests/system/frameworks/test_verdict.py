"""The judgement of a step: three runs that are alike stand, and each kind of fault is named."""

from dataclasses import replace

import pytest

from testbed.frameworks.table import STEPS, Step
from testbed.frameworks.verdict import Result, Run, Setting

STEP = Step(name="a step", program="none", argument="none", seconds=9.0, expect={"sum": 3})
GOOD = Run(setting=Setting.BARE, facts={"sum": 3, "other": 1}, seconds=1.0, busy_said=0.5, busy_was=0.5)


def judged(changed: Run, step: Step = STEP) -> list[str]:
    """Return the faults of a step whose hooked run alone is this one; the two others are good."""
    runs = {setting: replace(GOOD, setting=setting) for setting in Setting}
    runs[Setting.ALONE] = replace(changed, setting=Setting.ALONE)
    return Result(step, runs).faults()


def test_three_runs_that_are_alike_stand() -> None:
    assert judged(GOOD) == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param(replace(GOOD, facts={}, hung=True), "HANGS, no end after 9 s", id="a run that does not end"),
        pytest.param(replace(GOOD, facts={}, code=-11, said="oops\n"), "code -11 and told nothing: oops", id="a crash"),
        pytest.param(replace(GOOD, facts={"sum": 4, "other": 1}), "sum is 4, not 3", id="a fact that must hold"),
        pytest.param(replace(GOOD, facts={"sum": 3, "other": 2}), "other is 2, bare 1", id="a fact unlike bare"),
        pytest.param(
            replace(GOOD, facts={"raised": "RuntimeError", "said": "no"}), "RuntimeError: no", id="an exception"
        ),
        pytest.param(replace(GOOD, seconds=1.4), "SLOW, 1.40 times as long as bare", id="slower than allowed"),
        pytest.param(replace(GOOD, busy_said=1.5), "says 1.50 s of GPU time", id="busy time that was not"),
    ],
)
def test_a_fault_is_named(changed: Run, named: str) -> None:
    assert any(named in fault for fault in judged(changed)), judged(changed)


def test_a_short_step_is_not_called_slow_for_the_noise_of_two_processors() -> None:
    runs = {setting: replace(GOOD, setting=setting, seconds=0.05) for setting in Setting}
    runs[Setting.ALONE] = replace(runs[Setting.ALONE], seconds=0.15)
    assert Result(STEP, runs).faults() == []


def test_what_must_hold_under_the_hook_replaces_the_bare_fact() -> None:
    capped = replace(STEP, expect={}, hooked={"sum": 8})
    runs = {setting: replace(GOOD, setting=setting, facts={"sum": 8}) for setting in Setting}
    runs[Setting.BARE] = replace(GOOD, facts={"sum": 40})
    assert Result(capped, runs).faults() == []
    runs[Setting.ALONE] = replace(runs[Setting.ALONE], facts={"sum": 40})
    assert Result(capped, runs).faults() == ["hooked alone: sum is 40, not 8"]


def test_an_exception_that_is_expected_under_the_hook_ends_the_step_before_its_facts() -> None:
    refused = replace(STEP, expect={}, hooked={"raised": "AcceleratorError"})
    runs = {setting: replace(GOOD, setting=setting, facts={"raised": "AcceleratorError"}) for setting in Setting}
    runs[Setting.BARE] = GOOD
    assert Result(refused, runs).faults() == []


def test_a_refusal_must_name_its_remedy() -> None:
    refused = replace(STEP, says="nvshare.com/allocation")
    assert [fault for fault in judged(GOOD, refused) if "no word of 'nvshare.com/allocation'" in fault]
    assert not [
        fault for fault in judged(replace(GOOD, said="set nvshare.com/allocation"), refused) if "alone" in fault
    ]


def test_an_exception_in_every_run_is_a_fault_where_nothing_else_is_expected() -> None:
    """A step that never worked must not stand because it fails alike everywhere."""
    runs = {setting: replace(GOOD, setting=setting, facts={"raised": "E", "said": "no"}) for setting in Setting}
    assert Result(replace(STEP, expect={}), runs).faults()


def test_no_two_steps_have_one_name() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)

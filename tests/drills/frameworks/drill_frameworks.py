"""`make drills`: every step of the frameworks' table, bare, hooked alone, and hooked beside a competitor."""

from collections.abc import Callable

from testbed.frameworks import standins, wheels
from testbed.frameworks.errors import NotCachedError
from testbed.frameworks.hardware import SoftwareGpus
from testbed.frameworks.running import run_step
from testbed.frameworks.table import STEPS, Step
from testbed.frameworks.verdict import Setting
from tests.runners.drills import Drill, count


def _gpus() -> SoftwareGpus:
    found = wheels.cached()
    return SoftwareGpus(found, standins.build(found.that_need_libraries(), found.headers, say=lambda _: None))


def _drill(step: Step) -> Callable[[], str]:
    def run() -> str:
        result = run_step(_gpus(), step)
        faults = result.faults()
        assert not faults, "; ".join(faults)
        return ", ".join(f"{setting.value} {result.runs[setting].seconds:.2f} s" for setting in Setting)

    return run


def _not_run() -> str:
    try:
        wheels.cached()
    except NotCachedError as error:
        return f"NOT RUN, {len(STEPS)} steps: {error}; {error.fix}"
    return "the wheels are here"


def _drills() -> list[Drill]:
    """List a drill for each step, or where the wheels are not cached one that says so."""
    try:
        wheels.cached()
    except NotCachedError:
        return [Drill("frameworks: the wheels are in the cache", _not_run)]
    return [Drill(step.name, _drill(step)) for step in STEPS[: count(len(STEPS))]]


DRILLS = _drills()

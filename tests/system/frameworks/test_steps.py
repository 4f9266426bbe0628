"""A small part of the frameworks' table, where the wheels are in the cache; `make frameworks` fetches them.

The step's own processes are unmodified wheels; what they share with the hook is the machine.
"""

import pytest

from testbed.frameworks import standins, wheels
from testbed.frameworks.errors import NotCachedError
from testbed.frameworks.hardware import SoftwareGpus
from testbed.frameworks.running import run_step
from testbed.frameworks.table import STEPS, Step
from tests.plugins.optional import skip_optional

pytestmark = pytest.mark.slow
QUICK = [step for step in STEPS if step.is_quick]


@pytest.fixture(scope="module")
def gpus() -> SoftwareGpus:
    try:
        found = wheels.cached()
    except NotCachedError as error:
        skip_optional(str(error), error.fix)
    return SoftwareGpus(found, standins.build(found.that_need_libraries(), found.headers, say=print))


@pytest.mark.parametrize("step", [pytest.param(step, id=step.name) for step in QUICK])
def test_a_step_does_the_same_bare_hooked_and_beside_a_competitor(gpus: SoftwareGpus, step: Step) -> None:
    """Speed is the table's matter (`make frameworks`), not a test's."""
    faults = [fault for fault in run_step(gpus, step).faults() if "SLOW" not in fault]
    assert not faults, "\n".join(faults)

"""What is in flight: however much of it there is, a launch is held back for a while and never for good."""

import pytest

from tests.hook.support import Machine, compiled


@pytest.mark.slow
@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("streams", [1, 75], ids=["of one stream", "of a stream each"])
def test_any_number_of_launches_goes_behind_a_kernel_that_waits_for_its_partner(machine: Machine, streams: int) -> None:
    machine.devices = "2xT4-16GB"

    assert machine.run(compiled("stuck"), "75", str(streams)).well() == "ended\n"

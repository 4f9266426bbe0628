"""`make drills`: the hook in front of NVIDIA's own driver library, fetched where a mirror has it."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from testbed.cluster.errors import MissingError
from testbed.libcuda.pins import DRIVERS, Driver
from testbed.libcuda.supply import fetched
from tests.hook.support.own_driver import OwnDriver, compare, unknown_forms, wrapped
from tests.runners.drills import Drill, count


def _says_nothing(_: str) -> None:
    pass


def _drill(driver: Driver) -> Callable[[], str]:
    def run() -> str:
        try:
            own = OwnDriver(driver, fetched(driver, say=_says_nothing))
        except MissingError as error:
            return f"NOT RUN: {error.cause} (fix: {error.remedy})"
        return _held_against(own)

    return run


def _held_against(own: OwnDriver) -> str:
    with tempfile.TemporaryDirectory() as folder:
        compared = compare(own, Path(folder))
    unknown = [question for question in compared.differing() if not compared.is_known(question)]
    assert not unknown, f"{len(unknown)} answers differ, the first: {unknown[:5]}"
    assert not compared.escaped(), f"not swapped: {compared.escaped()[:5]}"
    exported = own.exported()
    absent = [name for name, since in wrapped().items() if since <= own.driver.cuda and name not in exported]
    assert not absent, absent
    assert not list(unknown_forms(own)), list(unknown_forms(own))
    lives = max(1, count(50))
    for _ in range(lives):
        bare, hooked = own.run("life", hooked=False), own.run("life", hooked=True)
        assert (bare.returncode, bare.stdout) == (hooked.returncode, hooked.stdout), hooked.stdout + hooked.stderr
    equal = len(compared.bare) - len(compared.differing())
    return f"{equal} of {len(compared.bare)} look-ups equal, {len(exported)} exports, {lives} lives alike"


DRILLS = [Drill(f"NVIDIA's own driver {driver.version}", _drill(driver)) for driver in DRIVERS]

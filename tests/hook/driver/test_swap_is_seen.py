"""A hook without the swap in its look-ups is found out: the software driver's own names lead to the driver itself.

NVIDIA's library is linked so (DT_SYMBOLIC).  When ours was not, `cuGetProcAddress` of the driver answered the preloaded
hook's functions by itself, and every test of the look-ups passed with the swap deleted.
"""

import subprocess
from pathlib import Path

import pytest

from tests.hook.support.machine import DRIVER, HOOK, Machine, compiled
from tests.hook.support.swapless import LINES, build_without

pytestmark = pytest.mark.slow

WAYS = {
    "cuGetProcAddress": ("v2-legacy", "v2-per-thread", "v2", "v1", "after-second-hop"),
    "dlsym": ("default", "next", "handle"),
}


def _libraries(machine: Machine) -> dict[str, str]:
    """Return the library in which each way of looking up ends."""
    lines = machine.run(compiled("lookups"), SIMGPU_DRIVER_VERSION="99000").well().splitlines()
    return {way: library for way, library, _ in map(str.split, lines)}


@pytest.mark.parametrize("swap", LINES)
def test_a_hook_that_swaps_nothing_gives_the_driver_s_own_function(swap: str, tmp_path: Path) -> None:
    ways = WAYS[swap]

    right = _libraries(Machine(tmp_path))
    wrong = _libraries(Machine(tmp_path, hook=build_without(swap, tmp_path)))

    assert {way: right[way] for way in ways} == dict.fromkeys(ways, HOOK.name)
    assert {way: wrong[way] for way in ways} == dict.fromkeys(ways, "libcuda.so.1")


def test_the_software_driver_finds_its_own_names_in_itself() -> None:
    """Hold to what `readelf -d` says of NVIDIA's libcuda.so.1 of 535, 555, 580 and 595."""
    dynamic = subprocess.run(["readelf", "-d", DRIVER / "libcuda.so.1"], capture_output=True, text=True, check=True)

    assert "(SYMBOLIC)" in dynamic.stdout

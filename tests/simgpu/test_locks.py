"""The order of simgpu's locks stands in `locks.h`.  Debug builds abort on a lock out of order; others do not look."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.fakes.gpu_machine import BUILD, ROOT

SOURCE = ROOT / "simgpu" / "src"
LOCKS = SOURCE / "shared" / "process"

PROGRAM = """
#include "shared/process/locks.h"
static struct sg_mutex init = SG_MUTEX(SG_RANK_INIT), one = SG_MUTEX(SG_RANK_QUEUE), other = SG_MUTEX(SG_RANK_QUEUE),
                       handles = SG_MUTEX(SG_RANK_HANDLES), more = SG_MUTEX(SG_RANK_HANDLES);
int main(void) {
    STEPS
    return 0;
}
"""

ORDERS = [
    pytest.param("sg_lock(&init); sg_lock(&handles);", True, id="an outer lock, then an inner one"),
    pytest.param("sg_lock(&one); sg_lock(&other);", True, id="two queues of a context"),
    pytest.param("sg_lock(&handles); sg_unlock(&handles); sg_lock(&init);", True, id="one after the other"),
    pytest.param("sg_lock(&handles); sg_try_lock(&init);", True, id="a try waits for nobody"),
    pytest.param("sg_lock(&handles); sg_lock(&init);", False, id="an inner lock, then an outer one"),
    pytest.param("sg_lock(&handles); sg_lock(&more);", False, id="two of one rank"),
    pytest.param("sg_try_lock(&handles); sg_lock(&one);", False, id="a lock that was tried counts as held"),
]


def run(folder: Path, steps: str, *flags: str) -> subprocess.CompletedProcess[str]:
    source, program = folder / "order.c", folder / "order"
    source.write_text(PROGRAM.replace("STEPS", steps))
    command = ["gcc", "-pthread", f"-I{SOURCE}", *flags, str(source), str(LOCKS / "locks.c"), "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([program], capture_output=True, text=True, timeout=10)


@pytest.mark.parametrize(("steps", "allowed"), ORDERS)
def test_a_debug_build_aborts_on_a_lock_out_of_order(steps: str, allowed: bool, tmp_path: Path) -> None:
    done = run(tmp_path, steps, "-DSIMGPU_LOCK_RANKS")

    assert (done.returncode == 0) == allowed
    assert ("locks.h has the order" in done.stderr) == (not allowed)


def test_a_release_build_does_not_look_at_the_order(tmp_path: Path) -> None:
    assert run(tmp_path, "sg_lock(&handles); sg_lock(&init);").returncode == 0
    symbols = subprocess.run(["nm", BUILD / "libcuda.so.1"], capture_output=True, text=True, check=True).stdout
    if not BUILD.name.endswith("-debug"):
        assert "sg_check_rank" not in symbols


def test_every_lock_of_the_libraries_has_a_rank() -> None:
    plain = re.compile(r"pthread_mutex_(t|init|lock|trylock)\b|PTHREAD_MUTEX_INITIALIZER")
    allowed = {LOCKS / "locks.h", SOURCE / "tools" / "burn.c"}

    assert [
        str(path) for path in SOURCE.rglob("*.[ch]") if path not in allowed and plain.search(path.read_text())
    ] == []

"""Which bytes of managed memory are ever touched, and where paged-out bytes lie: both as the settings say."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gpu_machine import Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu import clients  # noqa: E402
from tests.simgpu.clients import take  # noqa: E402

pytestmark = pytest.mark.slow

# a card of 2,000 MB, paging at 1,000 MB a second, a pass over the memory every 100 ms: round figures to reason with
SMALL = {"page_rate": "1000MB", "pass": "100ms", "overhead": "100MB", "speed": "5", "data_bytes": "1MB"}
SMALL_CARD = "1xT4-2000MB"
MB = 1 << 20


def paged_megabytes(machine: Machine) -> float:
    return sum(one.paged_bytes for one in machine.record().intervals(0)) / MB


def take_turns(machine: Machine, megabytes: int, **settings: str) -> float:
    """Let two processes run kernels in turn, each with so much managed memory; return how many MB they paged."""
    with machine.client(**settings) as one, machine.client(**settings) as other:
        for client in (one, other):
            client.call(clients.allocate_managed, megabytes)
        for _ in range(3):
            for client in (one, other):
                client.call(clients.run_here, "step_100ms", 2)
    return paged_megabytes(machine)


@pytest.mark.parametrize(("touched", "pages"), [("100%", True), ("25%", False), ("300MB", False), ("2GB", True)])
def test_only_the_part_that_kernels_touch_is_paged(
    touched: str, pages: bool, make_machine: Callable[..., Machine]
) -> None:
    """Let a program that allocates three quarters of a card, and uses little of it, cost a switch nothing."""
    paged = take_turns(make_machine(SMALL_CARD, **SMALL), 1500, touched=touched)

    assert (paged > 1000) is pages
    assert pages or paged == 0


def test_everything_is_touched_where_nothing_is_set(make_machine: Callable[..., Machine]) -> None:
    assert take_turns(make_machine(SMALL_CARD, **SMALL), 1500) > 1000


def set_bytes(pointer: int, megabytes: int) -> float:
    start, end = take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
    take(cu.cuEventRecord(start, 0))
    take(cu.cuMemsetD8Async(pointer, 1, megabytes * MB, 0))
    take(cu.cuEventRecord(end, 0))
    take(cu.cuCtxSynchronize())
    return float(take(cu.cuEventElapsedTime(start, end))) / 1e3


def test_a_copy_touches_what_it_copies_and_nothing_else(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    with machine.client(touched="0%") as client:
        pointer = client.call(clients.allocate_managed, 1500)
        client.call(clients.run_here, "step_100ms", 2)
        untouched = client.call(clients.free_megabytes)
        took = client.call(set_bytes, pointer, 200)
        touched = client.call(clients.free_megabytes)
        client.call(clients.run_here, "step_100ms", 2)

        assert (untouched, touched) == (1900, 1700)
        assert client.call(clients.free_megabytes) == 1700
    assert took < 0.1, "memory that is touched for the first time costs nothing"
    assert paged_megabytes(machine) == 0


def test_a_copy_of_memory_that_is_paged_out_waits_for_its_pages(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    with machine.client() as one, machine.client() as other:
        pointer = one.call(clients.allocate_managed, 1500)
        one.call(clients.run_here, "step_100ms", 2)
        resident = one.call(set_bytes, pointer, 300)
        other.call(clients.allocate_managed, 1700)
        other.call(clients.run_here, "step_100ms", 2)
        absent = one.call(set_bytes, pointer, 300)

    assert resident < 0.05
    assert absent == pytest.approx(0.3 * 1500 / 1500, rel=0.1), "300 MB at 1,000 MB a second"


def test_burn_passes_the_part_on(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(SMALL_CARD, **SMALL)
    machine.burn("--managed-mb", "3000", "--touch", "10%", "--kernel-ms", "50", "--count", "8")
    assert paged_megabytes(machine) == 0

    machine.burn("--managed-mb", "3000", "--kernel-ms", "50", "--count", "8")
    assert paged_megabytes(machine) > 0


@pytest.mark.parametrize("wrong", ["125%", "-1%", "a lot", "%"])
def test_a_part_that_is_none_is_refused(wrong: str, machine: Machine) -> None:
    refused = machine.start_burn("--count", "1", touched=wrong)

    assert f"SIMGPU_TOUCHED={wrong} cannot be read" in refused.communicate(timeout=30)[1]


# ---- where paged-out bytes lie

TINY = {"page_rate": "1000MB", "pass": "50ms", "overhead": "50MB", "speed": "1"}


def own_megabytes(process: int | None) -> float:
    """Return the anonymous memory that the kernel counts for a process."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) / 1024


def settled(process: int | None, before: float) -> float:
    """Return by how much a process has grown, when it has ceased to change."""
    last, deadline = -1.0, time.monotonic() + 20
    while abs(last - own_megabytes(process)) > 1 and time.monotonic() < deadline:
        last = own_megabytes(process)
        time.sleep(0.2)  # the thread looks every 10 ms and tells nobody
    return own_megabytes(process) - before


@pytest.mark.parametrize(("host_pages", "grows"), [("on", True), ("off", False)])
def test_paged_out_bytes_are_the_owner_s_own_memory(
    host_pages: str, grows: bool, make_machine: Callable[..., Machine]
) -> None:
    """Hold to uvm_va_block.c: pages that are evicted are charged to the memory cgroup of the process that owns them."""
    machine = make_machine("1xT4-400MB", **TINY)
    with machine.client(host_pages=host_pages) as owner, machine.client(host_pages=host_pages) as neighbour:
        for client in (owner, neighbour):
            client.call(clients.allocate_managed, 250)
        owner.call(clients.run_here, "step_50ms", 4)
        before = own_megabytes(owner.process.pid)
        neighbour.call(clients.run_here, "step_50ms", 4)
        pushed_out = settled(owner.process.pid, before)
        owner.call(clients.run_here, "step_50ms", 4)
        back = settled(owner.process.pid, before)

    assert pushed_out == pytest.approx(200 if grows else 0, abs=15)
    assert back == pytest.approx(0, abs=15)


@contextmanager
def memory_group(megabytes: int) -> Iterator[Path]:
    """Make a memory cgroup with this limit; skip where this user may not."""
    unified = (Path("/sys/fs/cgroup") / "cgroup.controllers").exists()
    root = Path("/sys/fs/cgroup") if unified else Path("/sys/fs/cgroup/memory")
    group, limit = root / f"simgpu-{secrets.token_hex(4)}", "memory.max" if unified else "memory.limit_in_bytes"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here ({error}): the owner's limit is NOT tested")
    try:
        if not (group / limit).exists():
            pytest.skip("the memory controller is not on here: the owner's limit is NOT tested")
        (group / limit).write_text(str(megabytes * MB))
        yield group
    finally:
        group.rmdir()


def test_a_neighbour_s_turn_may_kill_the_owner_whose_limit_is_too_small(make_machine: Callable[..., Machine]) -> None:
    """Count what is pushed out of the card against the owner's limit: a pod with little host memory ends."""
    machine = make_machine("1xT4-400MB", **TINY)
    with memory_group(100) as group:
        with machine.client(host_pages="on") as owner, machine.client() as neighbour:
            for client in (owner, neighbour):
                client.call(clients.allocate_managed, 250)
            owner.call(clients.run_here, "step_50ms", 4)
            (group / "cgroup.procs").write_text(str(owner.process.pid))
            neighbour.call(clients.run_here, "step_50ms", 4)
            owner.process.join(30)
            code = owner.process.exitcode
        while (group / "cgroup.procs").read_text().strip():
            os.sched_yield()

    assert code == -9

"""How busy each process keeps a card: as coarse as a card says it (nvmlDeviceGetProcessUtilization of nvml.h)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.gpu_machine import Machine

nv: Any = pytest.importorskip("pynvml")
from tests.simgpu import clients  # noqa: E402

pytestmark = pytest.mark.slow

SAMPLE_US = 1e6 / 6


def samples(since: int = 0) -> Any:
    """Return process, percent and time of every sample that is newer; or the name of the error."""
    nv.nvmlInit()
    card = nv.nvmlDeviceGetHandleByIndex(0)
    try:
        found = nv.nvmlDeviceGetProcessUtilization(card, since)
    except nv.NVMLError as error:
        return type(error).__name__
    return [(one.pid, one.smUtil, one.timeStamp) for one in found]


def samples_over(seconds: float) -> list[tuple[int, int, int]]:
    """Ask for what is new, again and again."""
    seen: list[tuple[int, int, int]] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        new = samples(seen[-1][2] if seen else 0)
        seen += new if isinstance(new, list) else []
    return seen


def test_samples_are_of_whole_sixths_of_a_second_and_each_is_told_once(machine: Machine) -> None:
    """Tell only newer samples to a caller who passes the last one's time on as `lastSeenTimeStamp`."""
    with machine.client() as monitor, machine.client() as worker:
        worker.start(clients.run_kernels, "step_100ms", 14)
        found = monitor.call(samples_over, 1.2)
        worker.result()

    times = [at for _, _, at in found]
    assert times == sorted(set(times))
    assert 5 <= len(times) <= 8
    assert all(abs(at / SAMPLE_US - round(at / SAMPLE_US)) < 1e-4 for at in times)
    assert {process for process, _, _ in found} == {worker.process.pid}
    assert max(percent for _, percent, _ in found) == 100


def test_only_processes_that_did_something_in_the_sample_are_listed(machine: Machine) -> None:
    """List processes "that had some non-zero utilization during the last sample period"; else NOT_FOUND."""
    with machine.client() as monitor, machine.client() as idle, machine.client() as worker:
        idle.call(clients.begin_and_forget)
        assert monitor.call(samples) == "NVMLError_NotFound"
        worker.call(clients.begin_and_forget)
        worker.start(clients.run_here, "step_100ms", 8)
        time.sleep(0.5)  # a sample begins every sixth of a second, whoever asks
        during = monitor.call(samples)
        worker.result()
        time.sleep(0.4)
        after = monitor.call(samples)

    assert [process for process, _, _ in during] == [worker.process.pid]
    assert after == "NVMLError_NotFound"


def test_two_busy_processes_share_the_percents(machine: Machine) -> None:
    with machine.client() as monitor, machine.client() as one, machine.client() as other:
        for client in (one, other):
            client.call(clients.begin_and_forget)
        for client in (one, other):
            client.start(clients.run_here, "step_20ms", 25)
        time.sleep(0.6)  # both run for a second
        found = monitor.call(samples)
        for client in (one, other):
            client.result()

    percents = {process: percent for process, percent, _ in found}
    assert percents.keys() == {one.process.pid, other.process.pid}
    assert all(isinstance(percent, int) and 35 <= percent <= 55 for percent in percents.values())
    assert sum(percents.values()) <= 100


def test_a_card_in_mig_mode_says_it_does_not_support_it(make_machine: Callable[..., Machine]) -> None:
    """Hold to "On MIG-enabled GPUs, querying process utilization is not currently supported"."""
    machine = make_machine("1xA100-40GB")
    with machine.client() as monitor:
        assert monitor.call(samples) == "NVMLError_NotFound"
        machine.tool("mig", "0", "on")
        assert monitor.call(samples) == "NVMLError_NotSupported"

"""The monitor: how often it opens the library again while a GPU is away, and what it does when stuck."""

import threading

import pytest

from contract.sharing.inventory import Gpu
from deviceplugin.core import health
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.events import GpuRecovered, GpuUnhealthy
from deviceplugin.core.inventory import Rules
from deviceplugin.gpus.monitor import Monitor
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.settings import Times
from tests.deviceplugin.running_plugin import RunPlugin
from tests.fakes.gpus import FakeLibrary, make_gpu, make_inventory

TIMES = Times(rescan=60.0, check=2.0)


class Counting(FakeLibrary):
    """A library that remembers when it was scanned."""

    def __init__(self, *gpus: Gpu) -> None:
        super().__init__(*gpus)
        self.now = 0.0
        self.scans: list[float] = []

    def rescan(self) -> list[Gpu]:
        self.scans.append(self.now)
        return super().rescan()


@pytest.fixture
def library() -> Counting:
    return Counting(make_gpu(0), make_gpu(1))


@pytest.fixture
def monitor(library: Counting) -> Monitor:
    one = Monitor(
        library, Publisher(DeviceList(make_inventory(0), frozenset())), Rules(slots=10), TIMES, lambda _: None
    )
    one._clock = lambda: library.now
    one.scan()
    return one


def pass_time(monitor: Monitor, library: Counting, seconds: int) -> list[float]:
    """Check as `run` would; return the times of the scans."""
    library.scans.clear()
    for _ in range(int(seconds / TIMES.check)):
        library.now += TIMES.check
        monitor.keep_up()
    return library.scans


def test_a_lost_gpu_is_searched_for_at_once_and_then_less_and_less_often(monitor: Monitor, library: Counting) -> None:
    lost = library.gpus.popitem()

    assert pass_time(monitor, library, 300) == [2, 4, 8, 16, 32, 64, 124, 184, 244]
    library.gpus.update([lost])
    assert pass_time(monitor, library, 120) == [304, 364]


def test_a_gpu_lost_again_is_searched_for_at_once_again(monitor: Monitor, library: Counting) -> None:
    lost = library.gpus.popitem()
    pass_time(monitor, library, 30)
    library.gpus.update([lost])
    pass_time(monitor, library, 40)
    del library.gpus[lost[0]]

    assert pass_time(monitor, library, 4) == [72, 74]


def test_a_stuck_monitor_makes_every_gpu_unhealthy_until_it_continues(monitor: Monitor, library: Counting) -> None:
    seen: list[int] = []
    for seconds in (60, 1, 0):
        library.now += seconds
        monitor.notice_silence()
        seen.append(len(monitor._publisher.device_list.unhealthy))
    monitor.keep_up()
    monitor.notice_silence()

    assert seen == [0, 2, 2]
    assert monitor._publisher.device_list.unhealthy == frozenset()


def test_a_hanging_call_reaches_the_kubelet_and_the_health_page(
    run_plugin: RunPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SILENCE_SECONDS", 1.5)
    setup, goes_on = run_plugin(), threading.Event()
    setup.kubelet.start()
    setup.kubelet.wait_for_list(lambda devices: all(devices.values()))
    before, check = setup.kubelet.lists, setup.library.check
    assert setup.plugin.why_not_healthy() == ""
    setup.library.check = lambda uuid: (goes_on.wait(30), check(uuid))[1]  # type: ignore[method-assign]
    try:
        setup.kubelet.wait_for_list(lambda devices: not any(devices.values()), after=before)
        assert setup.events.wait_for(GpuUnhealthy).why == health.STUCK
        assert health.STUCK in setup.plugin.why_not_healthy()
    finally:
        goes_on.set()
    setup.events.wait_for(GpuRecovered)
    assert setup.plugin.why_not_healthy() == ""


def test_a_library_that_is_away_is_asked_at_every_check(monitor: Monitor, library: Counting) -> None:
    library.answers = False
    library.gpus.clear()

    assert pass_time(monitor, library, 10) == [2, 4, 6, 8, 10]

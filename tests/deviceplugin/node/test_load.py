"""Load: how old it may be, and that no call waits for it."""

import socket
import threading
import time
from pathlib import Path

import pytest

from contract.sharing.placement import Strategy
from contract.sharing.scoring import Weights, score
from contract.wire.load import GpuLoad, Load
from deviceplugin.core.events import GpuRefused
from deviceplugin.node.load import LoadMemory, ask_for_load, policy_now
from deviceplugin.settings import Settings
from testbed.cluster.machine.processes import wait_until
from tests.deviceplugin.running_plugin import RunPlugin, Setup, running
from tests.fakes.gpus import FakeScheduler, make_gpu
from tests.fakes.kubelet import Kubelet

A, B = (make_gpu(number).uuid for number in range(2))


def memory_after(seconds: float, *, age_ms: int = 0, drained: bool = False) -> LoadMemory:
    """Return a memory that took an answer so many seconds ago."""
    now = [0.0]
    memory = LoadMemory(fresh_seconds=5.0, clock=lambda: now[0])
    memory.remember(Load((GpuLoad(uuid=A, busy=1.0, drained=drained),), age_ms))
    now[0] = seconds
    return memory


@pytest.mark.parametrize(
    ("memory", "weights", "by_load"),
    [
        pytest.param(memory_after(1.0), Weights(), True, id="fresh"),
        pytest.param(memory_after(6.0), Weights(), False, id="too old"),
        pytest.param(memory_after(1.0, age_ms=4500), Weights(), False, id="its figures were old when it came"),
        pytest.param(memory_after(1.0), None, False, id="load is not wanted"),
        pytest.param(LoadMemory(fresh_seconds=5.0), Weights(), False, id="nothing was ever heard"),
    ],
)
def test_when_load_decides(memory: LoadMemory, weights: Weights | None, by_load: bool) -> None:
    policy = policy_now(memory, Strategy.SPREAD, weights)

    assert (policy.penalty is not None) is by_load


def test_a_drained_gpu_stays_drained_when_the_scheduler_is_gone() -> None:
    assert memory_after(600.0, drained=True).drained() == {A}
    assert memory_after(600.0).drained() == frozenset()


def first_list(settings: Settings) -> dict[str, bool]:
    """Return the first list that a plugin sends to a kubelet that was there before it."""
    kubelet = Kubelet(settings.kubelet_folder).start()
    try:
        with running(settings, gpus=2):
            return kubelet.wait_for_list()
    finally:
        kubelet.stop()


def drained_in(devices: dict[str, bool]) -> set[str]:
    return {device_id.partition("__")[0] for device_id, is_healthy in devices.items() if not is_healthy}


def test_a_drain_is_in_the_first_list_of_a_plugin_that_starts_anew(settings: Settings) -> None:
    scheduler = FakeScheduler(settings.control_socket, A)
    try:
        assert drained_in(first_list(settings)) == {A}
    finally:
        scheduler.end()


def test_a_drain_is_remembered_while_the_scheduler_is_away(settings: Settings) -> None:
    state_file = settings.layout.root / "drained"
    scheduler = FakeScheduler(settings.control_socket, A)
    with running(settings, gpus=2) as setup:
        wait_until(state_file.exists, what="the drain is noted", seconds=10)
        setup.kubelet.stop()
    scheduler.end()
    assert drained_in(first_list(settings)) == {A}

    settings.control_socket.unlink()
    scheduler = FakeScheduler(settings.control_socket)
    with running(settings, gpus=2) as setup:
        wait_until(lambda: state_file.read_text() == "", what="the end of the drain is noted", seconds=10)
    scheduler.end()
    assert drained_in(first_list(settings)) == set()


def test_weights_multiply_and_unknown_figures_are_left_out() -> None:
    loads = [GpuLoad(uuid=A, busy=0.5, waiting=1, temperature=80), GpuLoad(uuid=B)]

    assert score(loads, Weights(busy=2.0, waiting=1.0)) == {
        A: {"busy": 1.0, "waiting": 0.5},
        B: {"busy": 0.0, "waiting": 0.0},
    }


def test_a_scheduler_that_hangs_is_not_waited_for_long(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(short_path / "control.sock"))
        hanging.listen()
        with pytest.raises(OSError, match="timed out"):
            ask_for_load(short_path / "control.sock")


def test_calls_do_not_wait_while_the_scheduler_hangs(run_plugin: RunPlugin, short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(short_path / "control.sock"))
        hanging.listen()
        setup = run_plugin(weights=Weights())
        setup.kubelet.start()
        setup.kubelet.wait_for_list()
        hanging.accept()  # the question has come, and is never answered
        began = time.monotonic()
        for number in range(10):
            setup.kubelet.prefer([f"{A}__{number}", f"{B}__{number}"], 1)
            setup.kubelet.allocate(f"{A}__{number}")

        assert time.monotonic() - began < 10 * 0.5, "each call may be slow on a busy machine, none may wait a second"


def test_a_gpu_that_another_plugin_begins_to_offer_is_no_longer_shared(setup: Setup) -> None:
    before = setup.kubelet.lists
    setup.plugin.monitor.tell_foreign({A: "nvidia.com/gpu"})
    devices = setup.kubelet.wait_for_list(lambda devices: len(devices) == 30, after=before)

    assert not [device_id for device_id in devices if device_id.startswith(A)]
    assert setup.events.wait_for(GpuRefused).refusal.code == "ServedByAnother"


def test_a_part_that_fails_ends_the_plugin(setup: Setup) -> None:
    def fail(_: float) -> None:
        raise ZeroDivisionError("a mistake of ours")

    setup.library.wait_for_xid = fail  # type: ignore[method-assign,assignment]
    ended = threading.Event()
    setup.kubelet.on_stream_end = ended.set

    assert ended.wait(15), "the stream goes on though nobody watches the GPUs"
    assert setup.plugin.has_failed

"""The registrar with a fake kubelet, which does what a real kubelet cannot be made to do on order."""

import shutil
import socket
import threading
import time
from pathlib import Path

import grpc
import pytest

from adapters.kubelet.device_plugin_api import VERSION
from contract.words import names
from deviceplugin.core.events import Registered, RegistrationLost
from deviceplugin.kubelet.server import PREFIX
from deviceplugin.plugin import Plugin
from deviceplugin.settings import Settings
from testbed.cluster.machine.processes import wait_until
from tests.deviceplugin.running_plugin import RunPlugin, Setup, running
from tests.fakes.gpus import FakeCluster, FakeLibrary, PluginEvents, make_gpu
from tests.fakes.kubelet import Kubelet


def own_sockets(setup: Setup) -> list[str]:
    return [path.name for path in setup.kubelet.folder.glob(f"{PREFIX}*.sock")]


def wait_until_registered(setup: Setup, count: int, cause: str) -> None:
    assert setup.events.wait_for(Registered, count=count).cause == cause


def test_it_registers_as_the_kubelet_wants_it(setup: Setup) -> None:
    (request,) = setup.kubelet.registrations

    assert (request.version, request.resource_name) == (VERSION, names.RESOURCE)
    assert [request.endpoint] == own_sockets(setup)
    assert request.options.pre_start_required
    assert request.options.get_preferred_allocation_available


def test_it_waits_for_a_kubelet_that_comes_later(run_plugin: RunPlugin) -> None:
    setup = run_plugin()
    setup.kubelet.start()

    assert len(setup.kubelet.wait_for_list()) == 40


def restart(setup: Setup) -> str:
    setup.kubelet.stop()
    setup.kubelet.start()
    return ""


def cancel_stream(setup: Setup) -> str:
    setup.kubelet.cancel_stream()
    return "stream-ended"


def remove_socket(setup: Setup) -> str:
    (setup.kubelet.folder / own_sockets(setup)[0]).unlink()
    return "socket-removed"


def replace_folder(setup: Setup) -> str:
    setup.kubelet.stop()
    shutil.rmtree(setup.kubelet.folder)
    setup.kubelet.start()
    return ""


@pytest.mark.parametrize("trouble", [restart, cancel_stream, remove_socket, replace_folder], ids=lambda it: it.__name__)
def test_it_registers_again_under_another_name_after(trouble: object, setup: Setup) -> None:
    before = setup.kubelet.lists
    cause = trouble(setup)  # type: ignore[operator]
    registered = setup.events.wait_for(Registered, count=2)
    setup.kubelet.wait_for_list(after=before)

    first, second = (request.endpoint for request in setup.kubelet.registrations[-2:])
    assert first != second
    assert own_sockets(setup) == [registered.socket]
    assert not cause or registered.cause == cause


def test_it_breaks_before_it_makes(setup: Setup) -> None:
    """Guard against kubelets up to 1.36, which mistake the end of an old stream for the new one's."""
    seen: list[list[str]] = []
    setup.kubelet.on_register = lambda _: seen.append(own_sockets(setup))
    for count in range(2, 6):
        before = setup.kubelet.lists
        setup.kubelet.cancel_stream()
        setup.events.wait_for(Registered, count=count)
        setup.kubelet.wait_for_list(after=before)

    assert [len(sockets) for sockets in seen] == [1, 1, 1, 1]


def test_a_kubelet_that_refuses_gets_another_registration_with_another_socket(run_plugin: RunPlugin) -> None:
    setup = run_plugin()
    setup.kubelet.refusal = "not now"
    setup.kubelet.start()
    setup.kubelet.wait_for_registrations(3)
    setup.kubelet.refusal = None
    setup.kubelet.wait_for_list()

    endpoints = [request.endpoint for request in setup.kubelet.registrations]
    assert len(set(endpoints)) == len(endpoints)
    assert own_sockets(setup) == [endpoints[-1]]


def test_a_hung_kubelet_is_waited_for_and_its_successor_gets_a_registration(run_plugin: RunPlugin) -> None:
    setup = run_plugin()
    setup.kubelet.hang = threading.Event()
    setup.kubelet.start()
    setup.kubelet.wait_for_registrations(1)
    setup.kubelet.hang.set()

    assert len(setup.kubelet.wait_for_list()) == 40
    assert len(setup.kubelet.registrations) == 1


def test_no_socket_is_made_for_a_killed_kubelet(run_plugin: RunPlugin, settings: Settings) -> None:
    """Guard against the next kubelet, which would remove the socket and then dial it for ten seconds."""
    settings.kubelet_folder.mkdir(parents=True)
    make_dead_socket(settings.kubelet_folder / "kubelet.sock")
    stale = settings.kubelet_folder / f"{PREFIX}0000.sock"
    make_dead_socket(stale)
    setup = run_plugin()
    wait_until(lambda: not stale.exists(), what="it has begun to serve", seconds=10)
    made = watch_for_sockets(setup, seconds=0.5)
    setup.kubelet.start()
    setup.kubelet.wait_for_list()

    assert made == []
    assert len(setup.kubelet.registrations) == 1


def test_a_kubelet_that_removed_our_socket_gets_a_registration_at_once(run_plugin: RunPlugin) -> None:
    setup = run_plugin()
    setup.kubelet.hang = threading.Event()
    setup.kubelet.start()
    setup.kubelet.wait_for_registrations(1)
    remove_socket(setup)
    setup.kubelet.wait_for_registrations(2, seconds=5)
    setup.kubelet.hang.set()

    assert len(setup.kubelet.wait_for_list()) == 40


def test_sockets_of_killed_predecessors_go_and_others_stay(run_plugin: RunPlugin, short_path: Path) -> None:
    folder = short_path / "k"
    folder.mkdir()
    stale, other = folder / f"{PREFIX}0000.sock", folder / "nvidia-gpu.sock"
    for path in (stale, other):
        make_dead_socket(path)
    setup = run_plugin()
    setup.kubelet.start_beside()
    setup.kubelet.wait_for_list()

    assert other.exists()
    assert not stale.exists()


def test_a_spare_changes_nothing_on_the_node_and_tells_nothing(settings: Settings) -> None:
    cluster, events = FakeCluster(), PluginEvents()
    plugin = Plugin(settings, FakeLibrary(make_gpu(0, mig=True), make_gpu(1)), cluster, listener=events.remember)
    plugin.look_ahead()

    assert len(plugin.publisher.device_list.inventory.shared) == 1
    assert not settings.layout.root.exists()
    assert not settings.layout.cdi.exists()
    assert (cluster.events, cluster.patches, events.all) == ([], [], [])


def test_a_gpu_lost_since_the_spare_looked_is_not_given_out(settings: Settings) -> None:
    library, stop = FakeLibrary(make_gpu(0), make_gpu(1)), threading.Event()
    plugin, kubelet = Plugin(settings, library), Kubelet(settings.kubelet_folder).start()
    plugin.look_ahead()
    library.gpus.pop(make_gpu(0).uuid)
    thread = threading.Thread(target=plugin.run, args=(stop,))
    thread.start()
    try:
        first = kubelet.wait_for_list()
    finally:
        stop.set()
        thread.join(20)
        kubelet.stop()

    assert {device_id.partition("__")[0] for device_id, is_healthy in first.items() if is_healthy} == {make_gpu(1).uuid}
    assert len(first) == 20, "the pods that hold its slots are still there"


def watch_for_sockets(setup: Setup, *, seconds: float) -> list[str]:
    """Return every socket that was there at a look; each one lives for some milliseconds at least."""
    seen, end = set[str](), time.monotonic() + seconds
    while time.monotonic() < end:
        seen.update(own_sockets(setup))
    return sorted(seen)


def make_dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_when_told_to_end_it_leaves_no_socket_and_ends_the_stream(settings: Settings) -> None:
    with running(settings) as setup:
        setup.kubelet.start()
        setup.kubelet.wait_for_list()
    assert own_sockets(setup) == []
    with pytest.raises(grpc.RpcError):
        setup.kubelet.prefer([f"{make_gpu(0).uuid}__0"], 1)
    setup.kubelet.stop()


def test_registrations_and_their_losses_are_events(setup: Setup) -> None:
    setup.kubelet.cancel_stream()

    assert setup.events.wait_for(RegistrationLost).cause == "stream-ended"
    wait_until_registered(setup, 2, "stream-ended")

"""How long the kubelet's calls take, in the plugin and over its socket: meanwhile it admits no other pod."""

import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from adapters.kubelet.device_plugin_api import messages
from contract.sharing import placement
from contract.sharing.placement import Policy
from contract.sharing.scoring import Weights, penalties
from contract.wire.load import GpuLoad
from contract.words.node import DevicesFrom
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.kubelet.calls import DevicePlugin, Parts, Streams, prefer
from deviceplugin.kubelet.server import PluginServer
from deviceplugin.layout import Layout
from deviceplugin.node.bindings import Bindings
from deviceplugin.node.files import NodeFiles
from deviceplugin.node.prestart import NodeCheck
from tests.fakes.cdi_cache import CdiCache
from tests.fakes.gpus import make_inventory
from tests.fakes.kubelet import Kubelet
from tests.runners.bench import Row

ROUNDS = 300
INVENTORY = make_inventory(16, 100)
IDS = sorted(INVENTORY.slot_of)


def milliseconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median after a warm-up; on a busy machine the slow end tells of the machine."""
    times = []
    for _ in range(rounds + 10):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[10:])


def request_of(size: int) -> messages.PreferredAllocationRequest:
    shuffled = random.sample(IDS, len(IDS))
    each = messages.ContainerPreferredAllocationRequest(available_deviceIDs=shuffled, allocation_size=size)
    return messages.PreferredAllocationRequest(container_requests=[each])


@contextmanager
def parts_of(folder: Path) -> Iterator[Parts]:
    """Return everything that the calls need, on a node of temporary folders."""
    (folder / "hook.so").write_bytes(b"hook")
    files = NodeFiles(Layout(folder / "node", folder / "cdi"), hook_source=folder / "hook.so", uses_cdi=True)
    files.prepare()
    bindings = Bindings(
        files=files,
        devices=lambda: GpuDevices(DevicesFrom.ENVIRONMENT, ""),
        ask_kubelet=lambda _: None,
        tell=lambda _: None,
    )
    yield Parts(
        publisher=Publisher(DeviceList(INVENTORY)),
        files=files,
        tell=lambda _: None,
        bindings=bindings,
        start_check=NodeCheck(files, lambda: False, lambda _: None),
        policy=Policy,
    )


def bench() -> Iterator[Row]:
    """Measure GetPreferredAllocation for 16 GPUs of 100 slots, Allocate, and both over the socket."""
    loads = penalties([GpuLoad(uuid=uuid, busy=random.random()) for uuid in INVENTORY.slots_on], Weights())
    for size in (1, 8):
        asked = request_of(size)
        took = milliseconds(partial(prefer, asked, DeviceList(INVENTORY), Policy))
        yield Row(what=f"GetPreferredAllocation, 1600 slots, size {size}", value=took, unit="ms", limit=2.0)
    weighed = milliseconds(lambda: prefer(request_of(8), DeviceList(INVENTORY), lambda: Policy(penalty=loads)))
    built = milliseconds(lambda: request_of(8))
    yield Row(what="… load-aware", value=max(weighed - built, 0.0), unit="ms", limit=2.0)
    wanted = placement.Request(available=tuple(IDS), size=1)
    yield Row(
        what="… the choice alone",
        value=milliseconds(lambda: placement.prefer(wanted, INVENTORY, Policy())),
        unit="ms",
    )
    with tempfile.TemporaryDirectory(prefix="dp-") as name, parts_of(Path(name)) as parts:
        yield from bench_allocate(parts)
        yield from bench_starts(parts)
        yield from bench_socket(replace(parts), Path(name) / "k")


def bench_allocate(parts: Parts) -> Iterator[Row]:
    """Measure the call's own work: folder and record included."""
    plugin, ids = DevicePlugin(parts, Streams()), iter(IDS)

    def allocate() -> None:
        each = messages.ContainerAllocateRequest(devices_ids=[next(ids)])
        plugin.allocate(messages.AllocateRequest(container_requests=[each]), None)  # type: ignore[arg-type]

    yield Row(what="Allocate of a new folder", value=milliseconds(allocate), unit="ms", limit=1.0)
    again = iter(IDS * 2)
    ids = again
    yield Row(what="Allocate of slots given before", value=milliseconds(allocate), unit="ms", limit=1.0)


def bench_starts(parts: Parts) -> Iterator[Row]:
    """Measure PreStartContainer: one that has to write its spec and wait for a reader, and one that need not.

    The reader does as the runtime's cache does, on a folder with nothing else in it.
    """
    plugin, folder = DevicePlugin(parts, Streams()), parts.files.layout.cdi

    def start(device_id: str) -> None:
        plugin.check_start(messages.PreStartContainerRequest(devices_ids=[device_id]), None)  # type: ignore[arg-type]

    for path in folder.iterdir():
        path.unlink()
    ids = IDS[:60]
    for device_id in ids:
        each = messages.ContainerAllocateRequest(devices_ids=[device_id])
        plugin.allocate(messages.AllocateRequest(container_requests=[each]), None)  # type: ignore[arg-type]
    first, again = iter(ids), itertools.cycle(ids)
    with CdiCache(folder).running():
        writes = milliseconds(lambda: start(next(first)), 50)
        rests = milliseconds(lambda: start(next(again)), 50)
    yield Row(what="PreStartContainer that writes its spec and waits for a reader", value=writes, unit="ms", limit=60.0)
    yield Row(what="PreStartContainer on the same card", value=rests, unit="ms", limit=2.0)


def bench_socket(parts: Parts, folder: Path) -> Iterator[Row]:
    """Measure over a real unix socket with gRPC on both sides; one process, so the client's time counts too."""
    kubelet = Kubelet(folder).start()
    server = PluginServer(folder, parts)
    server.start()
    try:
        server.register(kubelet.socket, "nvshare.com/gpu", seconds=10)
        shuffled = random.sample(IDS, len(IDS))
        took = milliseconds(lambda: kubelet.prefer(shuffled, 1), 100)
        yield Row(what="GetPreferredAllocation over the socket", value=took, unit="ms")
        ids = iter(IDS)
        took = milliseconds(lambda: kubelet.allocate(next(ids)), 100)
        yield Row(what="Allocate over the socket", value=took, unit="ms")
    finally:
        server.stop()
        kubelet.stop()

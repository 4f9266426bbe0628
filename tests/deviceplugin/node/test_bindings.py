"""What a container's start leaves on the node, beside a reader of the folder that does as the runtime does."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from contract.allocation import Allocation, key_of
from contract.words.node import DevicesFrom
from deviceplugin.core.binding import Wait, tell
from deviceplugin.core.device_edits import DeviceEdits, ForeignSpec
from deviceplugin.core.events import PluginEvent, SpecWritten
from deviceplugin.core.gpu_devices import CardDevices, GpuDevices
from deviceplugin.errors import NodeNotReady, NoDevices
from deviceplugin.layout import Layout
from deviceplugin.node.bindings import Bindings, Told
from deviceplugin.node.files import NodeFiles
from deviceplugin.node.handshake import CEILING_SECONDS, SETTLE_SECONDS, put_spec
from tests.fakes.cdi_cache import CdiCache

SLOTS = ("GPU-a__0",)
NEW = Allocation(key_of(SLOTS), SLOTS, ("GPU-a",), 1.0)
LAG = 0.1


def from_nvidia(mark: str) -> GpuDevices:
    spec = ForeignSpec("/etc/cdi/nvidia.yaml", "0.5.0", "nvidia.com/gpu", DeviceEdits(env=(f"MARK={mark}",)))
    return GpuDevices(DevicesFrom.NVIDIA_CDI, "", {"GPU-a": CardDevices(spec, DeviceEdits())})


@dataclass
class Desk:
    """Bindings on a node of temporary folders; `devices` and `told` are what the node and the kubelet say now."""

    files: NodeFiles
    devices: GpuDevices = field(default_factory=lambda: from_nvidia("1"))
    told: Told | None = None
    events: list[PluginEvent] = field(default_factory=list)
    asked: int = 0

    def allocate(self, suffix: str) -> Allocation:
        allocation = tell(NEW, self.files.read(NEW.key), suffix)
        self.files.write(allocation)
        return allocation

    def start(self) -> Allocation:
        bindings = Bindings(
            files=self.files, devices=lambda: self.devices, ask_kubelet=self._ask, tell=self.events.append
        )
        return bindings.start(NEW)

    def _ask(self, _: Sequence[str]) -> Told | None:
        self.asked += 1
        return self.told

    @property
    def written(self) -> list[str]:
        return [event.wait for event in self.events if isinstance(event, SpecWritten)]

    @property
    def proofs(self) -> list[str]:
        return sorted(path.name for path in self.files.layout.allocation(NEW.key).glob("bound-*"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    hook = tmp_path / "hook.so"
    hook.write_text("hook")
    files = NodeFiles(Layout(tmp_path / "node", tmp_path / "cdi"), hook_source=hook, uses_cdi=True)
    files.prepare()
    return Desk(files)


@pytest.fixture
def cache(desk: Desk) -> Iterator[CdiCache]:
    with CdiCache(desk.files.layout.cdi, lag=LAG).running() as it:
        yield it


def marks(cache: CdiCache, *suffixes: str) -> list[str]:
    """Return the driver that each name stands for in the cache."""
    return [cache.inject(f"nvshare.com/vgpu={NEW.key}-{each}")["spec"]["env"][0] for each in suffixes]


def test_the_first_start_binds_every_name_and_the_next_ones_write_nothing(desk: Desk, cache: CdiCache) -> None:
    desk.told = Told("uid", (f"{NEW.key}-1", f"{NEW.key}-2"))
    for suffix in ("1", "2"):
        desk.allocate(suffix)
    bound = desk.start()
    scans = cache.scans

    assert marks(cache, "1", "2") == ["MARK=1"] * 2, "the runtime knows it before the start goes on"
    assert (bound.binding, bound.pod, desk.proofs) == (1, "uid", ["bound-1"])
    assert desk.start() == bound == desk.files.read(NEW.key)
    assert (desk.written, desk.asked, cache.scans) == ([Wait.SEEN.value], 1, scans)


def test_a_restart_after_the_devices_have_changed_is_bound_anew(desk: Desk, cache: CdiCache) -> None:
    desk.allocate("1")
    desk.start()
    desk.devices = from_nvidia("2")
    began = time.monotonic()
    bound = desk.start()

    assert time.monotonic() - began >= SETTLE_SECONDS
    assert marks(cache, "1") == ["MARK=2"]
    assert (bound.binding, desk.proofs, desk.written) == (2, ["bound-2"], ["seen", "settled"])


def test_after_a_reboot_the_spec_is_written_again(desk: Desk, cache: CdiCache) -> None:
    desk.allocate("1")
    desk.start()
    desk.files.spec_path(NEW.key).unlink()
    desk.start()

    assert marks(cache, "1") == ["MARK=1"]
    assert desk.written == ["seen", "seen"]


def test_a_plugin_killed_after_the_proof_and_before_the_spec_binds_anew(desk: Desk, cache: CdiCache) -> None:
    desk.allocate("1")
    bound = desk.start()
    desk.devices = from_nvidia("2")
    killed = replace(bound, binding=2)
    desk.files.write(killed)
    desk.files.prove_binding(killed)

    assert desk.start().binding == 3
    assert (desk.proofs, marks(cache, "1")) == (["bound-3"], ["MARK=2"])


def test_a_lost_record_is_made_from_the_kubelets_own(desk: Desk, cache: CdiCache) -> None:
    told = desk.allocate("1")
    desk.files.remove(told)
    desk.told = Told("uid", told.names)
    bound = desk.start()

    assert (bound.names, bound.pod) == (told.names, "uid")
    assert marks(cache, "1") == ["MARK=1"]


def test_a_lost_record_that_nobody_knows_makes_the_container_wait(desk: Desk) -> None:
    with pytest.raises(NodeNotReady, match="Delete the pod and create it again"):
        desk.start()
    assert desk.files.read(NEW.key) is None


def test_an_allocation_that_was_answered_with_mounts_needs_no_spec(desk: Desk) -> None:
    desk.told = Told("uid", ())

    assert (desk.start().binding, desk.written) == (1, [])
    assert list(desk.files.layout.cdi.iterdir()) == []


def test_a_refused_node_writes_nothing_and_a_start_waits(desk: Desk) -> None:
    desk.allocate("1")
    desk.devices = GpuDevices(DevicesFrom.REFUSED, "The spec is torn.")
    for _ in range(2):
        with pytest.raises(NoDevices, match="torn"):
            desk.start()

    assert (desk.written, list(desk.files.layout.cdi.iterdir())) == ([], [])


@pytest.mark.usefixtures("cache")
def test_a_bound_container_does_not_start_again_on_a_refused_node(desk: Desk) -> None:
    desk.allocate("1")
    desk.start()
    desk.devices = GpuDevices(DevicesFrom.REFUSED, "The spec is torn.")

    with pytest.raises(NoDevices, match="torn"):
        desk.start()


def test_starts_of_different_containers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Nobody reads this folder, so each start waits as long as any does."""
    began = time.monotonic()
    paths = [tmp_path / "cdi" / f"{number}.json" for number in range(8)]
    threads = [threading.Thread(target=put_spec, args=(path, "{}", Wait.SEEN)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert CEILING_SECONDS <= time.monotonic() - began < 3 * CEILING_SECONDS
    assert all(path.is_file() for path in paths)


def test_an_unfinished_spec_is_never_taken_for_one(tmp_path: Path, cache: CdiCache) -> None:
    seen: set[str] = set()
    folder, put_one = tmp_path / "cdi", threading.Event()

    def look() -> None:
        while not put_one.is_set():
            seen.update(path.name for path in folder.iterdir())

    watcher = threading.Thread(target=look)
    watcher.start()
    put_spec(folder / "a.json", "{}", Wait.SEEN)
    put_one.set()
    watcher.join()

    assert cache.scans >= 2
    assert {name for name in seen if name.endswith((".json", ".yaml"))} == {"a.json"}

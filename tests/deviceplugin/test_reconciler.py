"""The reconciler: folders, specs, and the Node's labels."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from contract.allocation import Allocation, key_of
from contract.words import names, node
from deviceplugin.core.allocation import allocate
from deviceplugin.core.checkpoint import IdSet
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.events import GpuRecovered, NodeEvent, Registered
from deviceplugin.core.retention import Assignment, Listed, Ownership
from deviceplugin.errors import NodeNotReady
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.kubelet.ownership import OwnershipReader
from deviceplugin.node.files import NodeFiles
from deviceplugin.node.state_file import StateFile
from deviceplugin.plugin import Plugin
from deviceplugin.reconciler import Reconciler, ReconcilerParts
from deviceplugin.settings import Settings
from tests.deviceplugin.running_plugin import FAST
from tests.fakes.gpus import FakeCluster, FakeKubelet, FakeLibrary, make_gpu, make_inventory

INVENTORY = make_inventory(2)
A, B = (make_gpu(number).uuid for number in range(2))
A0, B0 = f"{A}__0", f"{B}__0"


@dataclass
class Desk:
    """A reconciler with all its parts; `now` is its clock."""

    files: NodeFiles
    publisher: Publisher
    kubelet: FakeKubelet
    cluster: FakeCluster
    now: float = 0.0
    foreign: Mapping[str, str] = field(default_factory=dict)
    news: threading.Condition = field(default_factory=threading.Condition)
    reconciler: Reconciler = field(init=False)

    def __post_init__(self) -> None:
        parts = ReconcilerParts(
            publisher=self.publisher,
            files=self.files,
            ownership_reader=OwnershipReader(
                kubelet=self.kubelet,
                checkpoint=self.files.layout.root / "checkpoint",
                resource=names.RESOURCE,
                state_file=StateFile(self.files.layout.root / "others"),
                tell_foreign=self.learn_foreign,
                grace=300.0,
            ),
            times=replace(FAST, release=60.0, report=2.0),
            cluster=self.cluster,
            clock=lambda: self.now,
        )
        self.reconciler = Reconciler(parts)

    def learn_foreign(self, foreign: Mapping[str, str]) -> None:
        with self.news:
            self.foreign = foreign
            self.news.notify_all()

    def look(self, *shown: str, kept: frozenset[IdSet] | None = frozenset(), at: float) -> None:
        """Look once at this ownership at this time."""
        self.now = at
        assignments = (Assignment("ns", "pod", "main", shown),) if shown else ()
        self.reconciler.look(Ownership(assignments, kept))


@pytest.fixture
def desk(settings: Settings) -> Desk:
    files = NodeFiles(settings.layout, hook_source=settings.hook_file, uses_cdi=True)
    files.prepare()
    return Desk(files, Publisher(DeviceList(INVENTORY)), FakeKubelet(), FakeCluster())


def made(*device_ids: str, at: float = 0.0) -> Allocation:
    return allocate(device_ids, INVENTORY, most=0, now=at)


def specs(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.files.layout.cdi.iterdir())


def folders(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.files.layout.allocations.iterdir())


# ---------------------------------------------------------------------------------------------- folders
def test_a_folder_and_its_spec_are_removed_when_unused_for_the_time(desk: Desk) -> None:
    desk.files.write(made(A0))
    desk.files.spec_path(key_of([A0])).write_text("{}")
    desk.look(at=0.0)
    desk.look(at=59.0)
    assert folders(desk) == [key_of([A0])]
    assert len(specs(desk)) == 1
    desk.look(at=60.0)

    assert (folders(desk), specs(desk)) == ([], [])


def test_slots_that_are_allocated_again_in_that_moment_keep_their_folder(desk: Desk) -> None:
    desk.files.write(made(A0))
    again = made(A0, at=60.0)
    desk.files.write(again)

    assert desk.files.remove(made(A0)) is False
    assert desk.files.read(again.key) == again


def test_a_spec_of_ours_without_a_folder_is_removed_and_others_stay(desk: Desk) -> None:
    (desk.files.layout.cdi / "nvshare.com-vgpu_0123.json").write_text("{}")
    (desk.files.layout.cdi / "nvidia.json").write_text("{}")
    desk.look(at=0.0)

    assert specs(desk) == ["nvidia.json"]


def test_a_reboot_loses_no_record(desk: Desk) -> None:
    """Cover a reboot: /var/run is empty, folders exist, no container runs yet, the kubelet knows its allocations."""
    allocation = replace(made(A0, B0, at=7.0), names=("told",), binding=1)
    desk.files.write(allocation)
    desk.files.layout.cdi.rmdir()
    desk.reconciler.repair(Ownership((), frozenset({frozenset({A0, B0})})))

    assert desk.files.read(allocation.key) == allocation
    assert specs(desk) == [], "the start of a container writes its spec"


def test_lost_folders_are_written_again_for_slots_in_use(desk: Desk) -> None:
    ownership = Ownership(
        (Assignment("ns", "pod", "main", (A0,)),), frozenset({frozenset({B0}), frozenset({"GPU-gone__1"})})
    )
    desk.reconciler.repair(ownership)

    assert folders(desk) == sorted([key_of([A0]), key_of([B0])])


def test_a_folder_with_an_incomplete_record_is_removed(desk: Desk) -> None:
    desk.files.write(made(A0))
    (desk.files.layout.allocation(key_of([A0])) / "allocation.json").write_text("")
    desk.reconciler.repair(Ownership((), frozenset()))

    assert folders(desk) == []


def test_the_list_is_sent_again_when_only_the_checkpoint_keeps_a_folder(desk: Desk) -> None:
    desk.files.write(made(A0))
    edition, _ = desk.publisher.wait_for_edition(0, seconds=0)
    for at in (0.0, 10.0, 59.0, 60.0):
        desk.look(kept=frozenset({frozenset({A0})}), at=at)

    assert desk.publisher.wait_for_edition(0, seconds=0)[0] - edition == 2, "at most once in the release time"
    desk.look(kept=frozenset({frozenset({A0}), frozenset({B0})}), at=62.0)
    assert desk.publisher.wait_for_edition(0, seconds=0)[0] - edition == 3, "but soon for another pod that has ended"


# ---------------------------------------------------------------------------------------------- the hook
def test_running_containers_keep_the_hook_that_they_have(desk: Desk, settings: Settings) -> None:
    with desk.files.layout.hook.open("rb") as mapped:
        settings.hook_file.write_bytes(b"hook 2")
        desk.files.prepare()

        assert mapped.read() == b"hook 1"
        assert desk.files.layout.hook.read_bytes() == b"hook 2"


def test_an_equal_hook_is_left_alone(desk: Desk) -> None:
    before = [path.stat().st_ino for path in (desk.files.layout.hook, desk.files.layout.preload_file)]
    desk.files.prepare()

    assert [path.stat().st_ino for path in (desk.files.layout.hook, desk.files.layout.preload_file)] == before


def test_unfinished_files_of_a_killed_plugin_are_removed(desk: Desk) -> None:
    layout = desk.files.layout
    (layout.allocations / ".0123.77").mkdir()
    (layout.hook_folder / ".libnvshare.so.77.1").write_bytes(b"half")
    (layout.cdi / ".nvshare.com-vgpu_0123.json.77.1").write_text("{")
    (layout.cdi / ".others").write_text("{")
    desk.files.prepare()

    assert (folders(desk), specs(desk)) == ([], [".others"])
    assert sorted(path.name for path in layout.hook_folder.iterdir()) == ["ld.so.preload", "libnvshare.so"]


def test_a_node_without_a_hook_is_an_error_that_names_the_flag(settings: Settings) -> None:
    files = NodeFiles(settings.layout, hook_source=Path("/nowhere/libnvshare.so"), uses_cdi=True)
    with pytest.raises(NodeNotReady, match="--hook-file"):
        files.prepare()


# ---------------------------------------------------------------------------------------------- the cluster
def test_a_flood_of_pods_is_a_write_each_few_seconds(desk: Desk) -> None:
    for step in range(1000):
        desk.look(*INVENTORY.shared[0].ids()[: step % 10], at=step * 0.01)

    assert len(desk.cluster.patches) == 5


def test_the_annotation_becomes_true_after_the_flood(desk: Desk) -> None:
    desk.look(A0, at=0.0)
    desk.look(A0, B0, at=0.1)
    desk.look(A0, B0, at=2.1)

    assert desk.cluster.patches[-1][1] == {node.FREE_SLOTS: f'{{"{A}":9,"{B}":9}}'}


def test_after_a_refusal_the_count_says_at_once_how_many_gpus_have_room(desk: Desk) -> None:
    full = INVENTORY.shared[0].ids()
    desk.look(*full, at=0.0)
    desk.reconciler.note_refused_size(2)
    desk.look(*full, at=0.1)
    desk.look(*full[1:], at=0.2)

    assert [labels[node.COUNT] for labels, _ in desk.cluster.patches] == ["2", "1", "2"]


def test_init_containers_slots_are_not_room_and_an_older_ownership_does_not_raise_the_count(desk: Desk) -> None:
    """Guard against a Deployment whose next pod comes here at once and is refused, without end."""
    desk.reconciler.repair(Ownership())
    desk.look(at=0.0)
    desk.reconciler.ownership = Ownership((), frozenset())
    full = [{"ResourceName": names.RESOURCE, "DeviceIDs": {"-1": [each]}} for each in INVENTORY.shared[0].ids()]
    (desk.files.layout.root / "checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": full}}))
    desk.reconciler.note_refused_size(2)
    desk.reconciler._look_once()

    assert [labels[node.COUNT] for labels, _ in desk.cluster.patches] == ["2", "1"]


def test_a_refusal_during_a_look_is_not_forgotten(desk: Desk) -> None:
    full = INVENTORY.shared[0].ids()

    def refuse_meanwhile() -> Listed:
        desk.reconciler.note_refused_size(2)
        return Listed()

    desk.kubelet.list_pods = refuse_meanwhile  # type: ignore[method-assign]
    desk.reconciler._look_once()
    desk.look(*full, at=5.0)

    assert [labels[node.COUNT] for labels, _ in desk.cluster.patches] == ["2", "1"]


def test_labels_are_written_later_when_the_api_server_is_away(desk: Desk) -> None:
    desk.cluster.answers = False
    desk.look(A0, at=0.0)
    desk.cluster.answers = True
    desk.look(A0, at=1.0)
    assert desk.cluster.patches == []
    desk.look(A0, at=2.0)

    assert len(desk.cluster.patches) == 1


def test_another_plugins_gpus_reach_the_inventory(desk: Desk) -> None:
    desk.kubelet.offered = {A: "nvidia.com/gpu"}
    stop = threading.Event()
    thread = threading.Thread(target=desk.reconciler.run, args=(stop,))
    thread.start()
    with desk.news:
        assert desk.news.wait_for(lambda: desk.foreign, 10)
    stop.set()
    desk.reconciler.end()
    thread.join(10)

    assert desk.foreign == {A: "nvidia.com/gpu"}


def test_events_go_to_the_cluster_and_only_from_the_plugin_that_serves(settings: Settings) -> None:
    cluster = FakeCluster()
    plugin = Plugin(settings, FakeLibrary(), cluster)
    plugin.tell(GpuRecovered(A))
    assert cluster.events == [], "a spare tells nothing"
    plugin._is_serving = True
    plugin.tell(GpuRecovered(A))
    plugin.tell(Registered("start", "s"))

    assert cluster.events == [NodeEvent("GpuRecovered", f"GPU {A} gets new containers again.", is_warning=False)]
    assert plugin.registry.get_sample_value("nvshare_device_plugin_events_dropped_total") == 7

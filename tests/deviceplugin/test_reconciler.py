"""The node kept in order: folders, specs, and what the cluster is told."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from contract import names, node
from contract.allocation import Allocation, key_of
from deviceplugin.core.allocation import allocate
from deviceplugin.core.checkpoint import IdSet
from deviceplugin.core.device_list import View
from deviceplugin.core.events import GpuRecovered, NodeEvent, Registered
from deviceplugin.core.retention import Assignment, Books, Listed
from deviceplugin.errors import NodeNotReady
from deviceplugin.gpus.publisher import Board
from deviceplugin.kubelet.ownership import KubeletBooks
from deviceplugin.node.files import NodeFiles
from deviceplugin.node.state_file import Note
from deviceplugin.plugin import Plugin
from deviceplugin.reconciler import Steward, StewardParts
from deviceplugin.settings import Settings
from tests.deviceplugin.running_plugin import FAST
from tests.fakes.gpus import FakeCluster, FakeKubelet, FakeLibrary, make_gpu, make_inventory

INVENTORY = make_inventory(2)
A, B = (make_gpu(number).uuid for number in range(2))
A0, B0 = f"{A}__0", f"{B}__0"


@dataclass
class Desk:
    """A steward with everything around it; `now` is its clock."""

    files: NodeFiles
    board: Board
    kubelet: FakeKubelet
    cluster: FakeCluster
    now: float = 0.0
    foreign: Mapping[str, str] = field(default_factory=dict)
    news: threading.Condition = field(default_factory=threading.Condition)
    steward: Steward = field(init=False)

    def __post_init__(self) -> None:
        parts = StewardParts(
            board=self.board,
            files=self.files,
            books=KubeletBooks(
                kubelet=self.kubelet,
                checkpoint=self.files.layout.root / "checkpoint",
                resource=names.RESOURCE,
                note=Note(self.files.layout.root / "others"),
                tell_foreign=self.learn_foreign,
                grace=300.0,
            ),
            times=replace(FAST, release=60.0, report=2.0),
            cluster=self.cluster,
            clock=lambda: self.now,
        )
        self.steward = Steward(parts)

    def learn_foreign(self, foreign: Mapping[str, str]) -> None:
        with self.news:
            self.foreign = foreign
            self.news.notify_all()

    def look(self, *shown: str, kept: frozenset[IdSet] | None = frozenset(), at: float) -> None:
        """One look at such books at such a time."""
        self.now = at
        assignments = (Assignment("ns", "pod", "main", shown),) if shown else ()
        self.steward.look(Books(assignments, kept))


@pytest.fixture
def desk(settings: Settings) -> Desk:
    files = NodeFiles(settings.layout, hook_source=settings.hook_file, uses_cdi=True)
    files.prepare()
    return Desk(files, Board(View(INVENTORY)), FakeKubelet(), FakeCluster())


def made(*device_ids: str, at: float = 0.0) -> Allocation:
    return allocate(device_ids, INVENTORY, most=0, now=at)


def specs(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.files.layout.cdi.iterdir())


def folders(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.files.layout.allocations.iterdir())


# ---------------------------------------------------------------------------------------------- folders
def test_a_folder_and_its_spec_go_when_unused_for_the_time(desk: Desk) -> None:
    desk.files.write(made(A0))
    desk.look(at=0.0)
    desk.look(at=59.0)
    assert folders(desk) == [key_of([A0])]
    desk.look(at=60.0)

    assert (folders(desk), specs(desk)) == ([], [])


def test_slots_that_are_allocated_again_in_that_moment_keep_their_folder(desk: Desk) -> None:
    desk.files.write(made(A0))
    again = made(A0, at=60.0)
    desk.files.write(again)

    assert desk.files.remove(made(A0)) is False
    assert desk.files.read(again.key) == again


def test_a_spec_of_ours_without_a_folder_goes_and_others_stay(desk: Desk) -> None:
    (desk.files.layout.cdi / "nvshare.com-vgpu_0123.json").write_text("{}")
    (desk.files.layout.cdi / "nvidia.json").write_text("{}")
    desk.look(at=0.0)

    assert specs(desk) == ["nvidia.json"]


def test_a_reboot_loses_nothing(desk: Desk) -> None:
    """/var/run is empty, the folders are there, no container runs yet, the kubelet knows its allocations."""
    allocation = made(A0, B0, at=7.0)
    desk.files.write(allocation)
    for path in desk.files.layout.cdi.iterdir():
        path.unlink()
    desk.files.layout.cdi.rmdir()
    desk.steward.repair(Books((), frozenset({frozenset({A0, B0})})))

    assert desk.files.is_whole(allocation)
    assert desk.files.read(allocation.key) == allocation


def test_folders_that_were_lost_are_made_anew_for_slots_in_use(desk: Desk) -> None:
    books = Books((Assignment("ns", "pod", "main", (A0,)),), frozenset({frozenset({B0}), frozenset({"GPU-gone__1"})}))
    desk.steward.repair(books)

    assert folders(desk) == sorted([key_of([A0]), key_of([B0])])


def test_a_folder_whose_record_is_not_whole_goes(desk: Desk) -> None:
    desk.files.write(made(A0))
    (desk.files.layout.allocation(key_of([A0])) / "allocation.json").write_text("")
    desk.steward.repair(Books((), frozenset()))

    assert folders(desk) == []


def test_the_kubelet_is_made_to_write_its_checkpoint_when_only_that_keeps_a_folder(desk: Desk) -> None:
    desk.files.write(made(A0))
    edition, _ = desk.board.wait_for_edition(0, seconds=0)
    for at in (0.0, 10.0, 59.0, 60.0):
        desk.look(kept=frozenset({frozenset({A0})}), at=at)

    assert desk.board.wait_for_edition(0, seconds=0)[0] - edition == 2, "at most once in the release time"
    desk.look(kept=frozenset({frozenset({A0}), frozenset({B0})}), at=62.0)
    assert desk.board.wait_for_edition(0, seconds=0)[0] - edition == 3, "but soon for another pod that has ended"


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


def test_what_a_killed_plugin_left_half_made_goes(desk: Desk) -> None:
    layout = desk.files.layout
    (layout.allocations / ".0123.77").mkdir()
    (layout.hook_folder / ".libnvshare.so.77.1").write_bytes(b"half")
    (layout.cdi / ".nvshare.com-vgpu_0123.json.77.1").write_text("{")
    (layout.cdi / ".others").write_text("{")
    desk.files.prepare()

    assert (folders(desk), specs(desk)) == ([], [".others"])
    assert sorted(path.name for path in layout.hook_folder.iterdir()) == ["ld.so.preload", "libnvshare.so"]


def test_a_node_without_a_hook_is_refused_with_the_flag_that_names_one(settings: Settings) -> None:
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
    desk.steward.note_refused_size(2)
    desk.look(*full, at=0.1)
    desk.look(*full[1:], at=0.2)

    assert [labels[node.COUNT] for labels, _ in desk.cluster.patches] == ["2", "1", "2"]


def test_slots_of_init_containers_are_not_room_and_old_books_do_not_end_the_care(desk: Desk) -> None:
    """Else a Deployment's next pod comes here at once, is refused, and so without end."""
    desk.steward.repair(Books())
    desk.look(at=0.0)
    desk.steward.books = Books((), frozenset())
    full = [{"ResourceName": names.RESOURCE, "DeviceIDs": {"-1": [each]}} for each in INVENTORY.shared[0].ids()]
    (desk.files.layout.root / "checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": full}}))
    desk.steward.note_refused_size(2)
    desk.steward._look_once()

    assert [labels[node.COUNT] for labels, _ in desk.cluster.patches] == ["2", "1"]


def test_a_refusal_while_the_books_are_read_is_not_forgotten_for_them(desk: Desk) -> None:
    full = INVENTORY.shared[0].ids()

    def refuse_meanwhile() -> Listed:
        desk.steward.note_refused_size(2)
        return Listed()

    desk.kubelet.list_pods = refuse_meanwhile  # type: ignore[method-assign]
    desk.steward._look_once()
    desk.look(*full, at=5.0)

    assert [labels[node.COUNT] for labels, _ in desk.cluster.patches] == ["2", "1"]


def test_an_api_server_that_is_away_is_told_later(desk: Desk) -> None:
    desk.cluster.answers = False
    desk.look(A0, at=0.0)
    desk.cluster.answers = True
    desk.look(A0, at=1.0)
    assert desk.cluster.patches == []
    desk.look(A0, at=2.0)

    assert len(desk.cluster.patches) == 1


def test_another_plugins_gpus_are_told_to_the_inventory(desk: Desk) -> None:
    desk.kubelet.others = {A: "nvidia.com/gpu"}
    stop = threading.Event()
    thread = threading.Thread(target=desk.steward.run, args=(stop,))
    thread.start()
    with desk.news:
        assert desk.news.wait_for(lambda: desk.foreign, 10)
    stop.set()
    desk.steward.end()
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

    assert cluster.events == [NodeEvent("GpuRecovered", f"GPU {A} is given out again.", is_warning=False)]
    assert plugin.registry.get_sample_value("nvshare_device_plugin_events_dropped_total") == 7

"""NVIDIA's specs in real folders: which files count, when they are read again, and who is told of a change."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from contract.sharing.inventory import Inventory
from contract.words.node import DevicesFrom
from deviceplugin.core.events import DevicesFound, DevicesRefused, PluginEvent
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.node import cdi_folders
from deviceplugin.node.cdi_folders import CdiFolders
from deviceplugin.node.gpu_devices import DeviceFinder
from deviceplugin.node.inotify import OPEN, Inotify
from tests.fakes.gpus import make_gpu

GPU = make_gpu(0, minor=3)
INVENTORY = take_stock([GPU], Rules(slots=1))


@pytest.fixture
def static(tmp_path: Path) -> Path:
    return folder(tmp_path / "etc")


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    return folder(tmp_path / "run")


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def spec_text(kind: str = "nvidia.com/gpu", *, minor: int = 3, mark: str = "1") -> str:
    device = {"name": GPU.uuid, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{minor}"}]}}
    common = {"env": [f"MARK={mark}"]}
    return yaml.safe_dump({"cdiVersion": "0.5.0", "kind": kind, "containerEdits": common, "devices": [device]})


def put(path: Path, text: str) -> Path:
    partial = path.with_name(f".{path.name}")
    partial.write_text(text)
    return partial.rename(path)


# ---------------------------------------------------------------------------------------------- which files
@pytest.mark.parametrize(
    ("name", "text", "specs", "malformed"),
    [
        pytest.param("nvidia.yaml", spec_text(), 1, 0, id="the toolkit's"),
        pytest.param("anything.yaml", spec_text(), 1, 0, id="by its kind, whatever its name"),
        pytest.param("x.json", spec_text("k8s.device-plugin.nvidia.com/gpu"), 0, 1, id="YAML in a JSON file"),
        pytest.param("nvidia.yml", spec_text(), 0, 0, id="an ending that no runtime reads"),
        pytest.param(".nvidia.yaml", spec_text(), 0, 0, id="an unfinished file"),
        pytest.param("nvidia.yaml", "", 0, 1, id="empty"),
        pytest.param("nvidia.yaml", "a: [", 0, 1, id="cut off"),
        pytest.param("nvidia.yaml", f"{spec_text()}---\n{spec_text()}", 0, 1, id="two documents"),
        pytest.param("management.nvidia.com-gpu.yaml", "x: 1", 0, 1, id="the operator's, without a version"),
        pytest.param("other.yaml", "a: [", 0, 0, id="another maker's fault is not ours"),
        pytest.param("k8s.gpu.nvidia.com-claim_1.json", "{", 0, 0, id="a claim's spec of NVIDIA's DRA driver"),
        pytest.param("nvidia.yaml", spec_text("nvidia.com/other"), 0, 0, id="another kind of NVIDIA's"),
        pytest.param("nvshare.com-vgpu_1.json", spec_text(), 0, 0, id="our own"),
    ],
)
def test_which_files_count(static: Path, name: str, text: str, specs: int, malformed: int) -> None:
    put(static / name, text)
    found = CdiFolders(static).read()

    assert (len(found.specs), len(found.malformed)) == (specs, malformed)


def test_files_that_cannot_be_read_are_malformed_and_missing_folders_are_empty(static: Path, tmp_path: Path) -> None:
    (static / "nvidia.yaml").write_bytes(b"\xff\xfe")
    (static / "nvidia-2.yaml").mkdir()
    found = CdiFolders(static, tmp_path / "missing").read()

    assert [each.file for each in found.malformed] == [str(static / "nvidia.yaml")]


def test_a_file_is_read_again_only_when_it_has_changed(static: Path, dynamic: Path) -> None:
    folders = CdiFolders(static, dynamic)
    path = put(static / "nvidia.yaml", spec_text())
    first = folders.read()
    with Inotify() as watch:
        watch.watch(path, OPEN)
        assert folders.read() is first
        assert watch.read(0.0) == []
    put(path, spec_text(mark="2"))

    assert folders.read().specs[0].common.env == ("MARK=2",)
    path.unlink()
    assert folders.read().specs == ()


def test_the_later_folder_has_priority_and_one_folder_counts_once(static: Path, dynamic: Path) -> None:
    for each in (static, dynamic):
        put(each / "nvidia.yaml", spec_text())

    assert [spec.priority for spec in CdiFolders(static, dynamic).read().specs] == [0, 1]
    assert len(CdiFolders(static, static).read().specs) == 1


# ---------------------------------------------------------------------------------------------- changes
@pytest.fixture
def changes(static: Path, dynamic: Path) -> Iterator[threading.Semaphore]:
    """Follow the folders, and count each change."""
    stop, told = threading.Event(), threading.Semaphore(0)
    follow = CdiFolders(static, dynamic).follow
    thread = threading.Thread(target=follow, args=(told.release, stop.wait))
    thread.start()
    assert told.acquire(timeout=10), "the first look"
    yield told
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_change_in_either_folder_is_told(static: Path, dynamic: Path, changes: threading.Semaphore) -> None:
    for each in (static, dynamic):
        path = put(each / "nvidia.yaml", spec_text())
        assert changes.acquire(timeout=10)
        path.unlink()
        assert changes.acquire(timeout=10)


def test_our_own_specs_are_no_news(dynamic: Path, changes: threading.Semaphore) -> None:
    put(dynamic / "nvshare.com-vgpu_1.json", "{}")

    assert not changes.acquire(timeout=1.0)


def test_a_folder_that_is_made_anew_is_followed_again(dynamic: Path, changes: threading.Semaphore) -> None:
    dynamic.rmdir()
    assert changes.acquire(timeout=10)
    dynamic.mkdir()
    assert changes.acquire(timeout=20), "the new folder is found"
    put(dynamic / "nvidia.yaml", spec_text())

    assert changes.acquire(timeout=20)


def test_without_a_watch_the_folders_are_looked_at_now_and_then(
    static: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> Inotify:
        raise OSError("too many inotify instances")

    monkeypatch.setattr(cdi_folders, "Inotify", refuse)
    looks: list[str] = []
    CdiFolders(static).follow(lambda: looks.append("look"), lambda _: len(looks) == 3)

    assert len(looks) == 3
    assert "too many inotify instances: the CDI folders are looked at every 5 s instead" in caplog.text


# ---------------------------------------------------------------------------------------------- the node's answer
class Finder:
    """A finder on two folders, with what it has told."""

    def __init__(self, static: Path, dynamic: Path, root: Path, wanted: DevicesFrom | None = None) -> None:
        self.told: list[PluginEvent] = []
        self.inventory: Inventory = INVENTORY
        self.unread = ""
        self.finder = DeviceFinder(
            CdiFolders(static, dynamic),
            root,
            wanted=wanted,
            inventory=lambda: self.inventory,
            takes_cdi=lambda: True,
            why_unread=lambda: self.unread,
            tell=self.told.append,
        )

    def source(self) -> DevicesFrom:
        return self.finder.now().source


def test_the_source_follows_the_folders_and_each_change_is_told_once(
    static: Path, dynamic: Path, tmp_path: Path
) -> None:
    desk = Finder(static, dynamic, tmp_path)
    assert [desk.source(), desk.source()] == [DevicesFrom.ENVIRONMENT] * 2
    path = put(static / "nvidia.yaml", spec_text())
    assert [desk.source(), desk.source()] == [DevicesFrom.NVIDIA_CDI] * 2
    path.unlink()
    assert desk.source() is DevicesFrom.REFUSED

    assert [type(event) for event in desk.told] == [DevicesFound, DevicesFound, DevicesFound, DevicesRefused]


def test_pods_wait_where_nobody_reads_the_environment_until_a_spec_comes(
    static: Path, dynamic: Path, tmp_path: Path
) -> None:
    desk = Finder(static, dynamic, tmp_path)
    desk.unread = "The default runtime is runc."
    assert desk.source() is DevicesFrom.REFUSED
    assert "The default runtime is runc. Pods wait." in desk.finder.now().sentence()
    put(static / "nvidia.yaml", spec_text())

    assert desk.source() is DevicesFrom.NVIDIA_CDI


def test_a_node_remembers_through_a_restart_that_it_had_specs(static: Path, dynamic: Path, tmp_path: Path) -> None:
    path = put(static / "nvidia.yaml", spec_text())
    Finder(static, dynamic, tmp_path).source()
    path.unlink()

    assert Finder(static, dynamic, tmp_path).source() is DevicesFrom.REFUSED
    assert Finder(static, dynamic, tmp_path, DevicesFrom.ENVIRONMENT).source() is DevicesFrom.ENVIRONMENT
    assert Finder(static, dynamic, tmp_path).source() is DevicesFrom.ENVIRONMENT, "the operator has settled it"


def test_a_new_gpu_is_looked_for_in_the_specs(static: Path, dynamic: Path, tmp_path: Path) -> None:
    put(static / "nvidia.yaml", spec_text())
    desk = Finder(static, dynamic, tmp_path)
    assert not desk.finder.now().refused
    desk.inventory = take_stock([GPU, make_gpu(1, minor=4)], Rules(slots=1))

    assert list(desk.finder.now().refused) == [make_gpu(1).uuid]


def test_a_spec_that_was_replaced_within_the_clocks_grain_is_noticed(static: Path) -> None:
    folders = CdiFolders(static)
    path = put(static / "nvidia.yaml", spec_text(mark="1"))
    before = path.stat()
    folders.read()
    put(path, spec_text(mark="2"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert folders.read().specs[0].common.env == ("MARK=2",)

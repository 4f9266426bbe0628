"""Our files on the node: after a full disk, and beside a scheduler that writes at the same time."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.allocation import Allocation, key_of
from deviceplugin.layout import Layout
from deviceplugin.node.files import NodeFiles


@pytest.fixture
def files(tmp_path: Path) -> NodeFiles:
    hook = tmp_path / "hook.so"
    hook.write_text("hook")
    one = NodeFiles(Layout(tmp_path / "node", tmp_path / "cdi"), hook_source=hook, uses_cdi=False)
    one.prepare()
    return one


@pytest.fixture
def allocation() -> Allocation:
    slots = ("GPU-a__0",)
    return Allocation(key_of(slots), slots, ("GPU-a",), 1.0)


@contextmanager
def full_disk() -> Iterator[None]:
    """Forbid every file of this process to grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_slots_refused_on_a_full_disk_are_allocated_when_it_has_room_again(
    files: NodeFiles, allocation: Allocation
) -> None:
    with full_disk(), pytest.raises(OSError, match="File too large"):
        files.write(allocation)
    files.write(allocation)

    assert files.read_all() == [allocation]


def test_a_half_removed_folder_does_not_block_the_next_one(files: NodeFiles, allocation: Allocation) -> None:
    left = files.layout.allocations / f".{allocation.key}.gone"
    left.mkdir()
    (left / ".pod.json").write_text("written while it was removed")
    files.write(allocation)

    assert files.remove(allocation)
    assert list(files.layout.allocations.iterdir()) == []


def test_a_start_removes_our_unfinished_files_and_leaves_the_schedulers(
    files: NodeFiles, allocation: Allocation
) -> None:
    files.write(allocation)
    folder = files.layout.allocation(allocation.key)
    theirs = [folder / ".scheduler.sock", folder / ".pod.json"]
    ours = [folder / ".allocation.json.17.4", files.layout.allocations / ".key.17", files.layout.hook_folder / ".a.1.2"]
    for path in (*theirs, *ours):
        path.write_text("half")
    files.prepare()

    assert [path.exists() for path in theirs] == [True, True]
    assert [path.exists() for path in ours] == [False, False, False]

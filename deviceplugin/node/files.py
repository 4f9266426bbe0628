"""Our files on the node: the hook, one folder an allocation, and where the CDI spec of an allocation lies.

The module owns how they are written: whole or not at all, by rename.  So no reader sees half a file, and running
containers keep the file that they have mapped.  It decides nothing.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contract import allocation as allocations
from contract.allocation import Allocation
from contract.errors import BadAllocation
from contract.words import paths
from deviceplugin.core import cdi
from deviceplugin.errors import NodeNotReady
from deviceplugin.layout import Layout

_PRELOAD_LINE = paths.CONTAINER_HOOK + "\n"
_PARTIAL = "."
"""Names of unfinished files begin with this; readers of our folders skip such names."""


@dataclass(slots=True)
class NodeFiles:
    """The files of one node; several threads may call it."""

    layout: Layout
    hook_source: Path
    """The hook that came with our image, to be copied to the node."""
    uses_cdi: bool
    _lock: threading.Lock

    def __init__(self, layout: Layout, *, hook_source: Path, uses_cdi: bool) -> None:
        self.layout, self.hook_source, self.uses_cdi = layout, hook_source, uses_cdi
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Make the folders, and copy the hook to its place."""
        with self._lock:
            self._prepare()

    def _prepare(self) -> None:
        try:
            self.layout.allocations.mkdir(parents=True, exist_ok=True)
            self.layout.own_folder_target.mkdir(parents=True, exist_ok=True)
            if self.uses_cdi:
                self.layout.cdi.mkdir(parents=True, exist_ok=True)
            self._put_hook()
            self._clean_partial()
        except OSError as error:
            raise NodeNotReady(
                f"{self.layout.root} cannot be prepared: {error}. Mount it writable into the plugin."
            ) from error

    def _put_hook(self) -> None:
        """Write the hook first, then the file that names it: in the other order every program would complain."""
        if not self.hook_source.is_file() and not self.layout.hook.is_file():
            raise NodeNotReady(
                f"there is no hook at {self.hook_source}, and none from before at {self.layout.hook}."
                " Give --hook-file the path of libnvshare.so."
            )
        self.layout.hook_folder.mkdir(parents=True, exist_ok=True)
        if self.hook_source.is_file():
            _write_if_other(self.layout.hook, self.hook_source.read_bytes(), mode=0o755)
        _write_if_other(self.layout.preload_file, _PRELOAD_LINE.encode())

    def _clean_partial(self) -> None:
        """Remove what a killed plugin left unfinished; our own unfinished files exist only under the lock."""
        folders = [self.layout.allocations, self.layout.hook_folder]
        found = [path for folder in folders for path in folder.glob(f"{_PARTIAL}*")]
        # not every file in there: the scheduler keeps its own beside ours
        found += self.layout.allocations.glob(f"*/{_PARTIAL}{paths.ALLOCATION_FILE}.*")
        found += self._specs(f"{_PARTIAL}{cdi.file_name('*')}*")
        for path in found:
            _remove(path)

    def hook_is_in_place(self) -> bool:
        """Return whether the library and the file that names it to the loader are both there."""
        return self.layout.hook.is_file() and self.layout.preload_file.is_file()

    def write(self, allocation: Allocation) -> None:
        """Make the allocation's folder, or bring its record up to date."""
        with self._lock:
            self._write_record(allocation)

    def write_missing(self, allocation: Allocation) -> bool:
        """Make the allocation's folder unless it has a complete record; return whether it was missing."""
        with self._lock:
            is_missing = self.read(allocation.key) is None
            if is_missing:
                self._write_record(allocation)
            return is_missing

    def _write_record(self, allocation: Allocation) -> None:
        record = allocations.render(allocation).encode()
        folder = self.layout.allocation(allocation.key)
        if folder.is_dir():
            _write(folder / paths.ALLOCATION_FILE, record)
            return
        partial = folder.with_name(f"{_PARTIAL}{allocation.key}.{os.getpid()}")
        partial.mkdir(mode=0o755, exist_ok=True)  # one from before is there when the disk was full
        (partial / paths.ALLOCATION_FILE).write_bytes(record)
        partial.rename(folder)

    def spec_path(self, key: str) -> Path:
        return self.layout.cdi / cdi.file_name(key)

    def read_spec(self, key: str) -> str | None:
        """Return the text of the allocation's CDI spec, or None where there is none."""
        try:
            return self.spec_path(key).read_text()
        except (OSError, UnicodeDecodeError):
            return None

    def prove_binding(self, allocation: Allocation) -> None:
        """Make the file that specs of this binding mount, then remove those of older bindings."""
        wanted = cdi.bound_file(allocation, self.layout)
        wanted.touch(mode=0o444)
        for path in wanted.parent.glob(f"{paths.BOUND_FILE}*"):
            if path != wanted:
                _remove(path)

    def has_proof(self, allocation: Allocation) -> bool:
        """Return whether the file that specs of this binding mount is there."""
        return cdi.bound_file(allocation, self.layout).is_file()

    def read_all(self) -> list[Allocation]:
        """Return every allocation that has a folder and a complete record."""
        found = (self._read(folder) for folder in self._folders())
        return [allocation for allocation in found if allocation is not None]

    def read(self, key: str) -> Allocation | None:
        """Return one allocation, or None where its folder or a complete record is missing."""
        return self._read(self.layout.allocation(key))

    def broken_keys(self) -> list[str]:
        """List the folders whose record is missing or incomplete."""
        return [folder.name for folder in self._folders() if self._read(folder) is None]

    def remove(self, allocation: Allocation) -> bool:
        """Remove the folder and the spec, unless the slots were allocated again meanwhile."""
        with self._lock:
            if self.read(allocation.key) != allocation:
                return False
            self._remove_key(allocation.key)
            return True

    def remove_broken(self, key: str) -> None:
        """Remove a folder that has no complete record."""
        with self._lock:
            if self.read(key) is None:
                self._remove_key(key)

    def _remove_key(self, key: str) -> None:
        """Remove the folder in one step, so that no reader sees it half empty."""
        gone = self.layout.allocations / f"{_PARTIAL}{key}.gone"
        _remove(self.layout.cdi / cdi.file_name(key))
        _remove(gone)
        with contextlib.suppress(FileNotFoundError):
            self.layout.allocation(key).rename(gone)
        _remove(gone)

    def remove_strays(self, keys: set[str]) -> None:
        """Remove our CDI specs that belong to none of these allocations."""
        wanted = {cdi.file_name(key) for key in keys}
        with self._lock:
            for path in self._specs(cdi.file_name("*")):
                if path.name not in wanted and not self.layout.allocation(_key_in(path)).is_dir():
                    _remove(path)

    def _specs(self, pattern: str) -> list[Path]:
        return list(self.layout.cdi.glob(pattern)) if self.uses_cdi else []

    def _folders(self) -> Iterator[Path]:
        for path in sorted(self.layout.allocations.iterdir()):
            if path.is_dir() and not path.name.startswith(_PARTIAL):
                yield path

    def _read(self, folder: Path) -> Allocation | None:
        try:
            found = allocations.parse((folder / paths.ALLOCATION_FILE).read_text())
        except (OSError, UnicodeDecodeError, BadAllocation):
            return None
        return found if found.has_its_own_key and found.key == folder.name else None


def _key_in(spec: Path) -> str:
    return spec.stem.rpartition("_")[2]


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    partial = path.with_name(f"{_PARTIAL}{path.name}.{os.getpid()}.{threading.get_ident()}")
    partial.write_bytes(content)
    partial.chmod(mode)
    partial.rename(path)


def _write_if_other(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Leave an equal file alone, so that running containers go on sharing its pages with new ones."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    _write(path, content, mode)


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

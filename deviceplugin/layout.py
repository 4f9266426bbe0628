"""Where our files lie below a node root.  The root is a setting, so that each test has a node of its own.

The module owns no path: each one is the contract's, moved below the root.
"""

from dataclasses import dataclass
from pathlib import Path

from contract.words import paths


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders and files of one node."""

    root: Path = Path(paths.NODE_ROOT)
    cdi: Path = Path(paths.CDI_SPECS)
    also_mounts: tuple[tuple[Path, str], ...] = ()
    """Folders of the node that a driver needs in every container, writable.  NVIDIA's driver needs none, since its own
    runtime mounts them.  The software GPU needs the file that its processes share."""
    also_env: tuple[tuple[str, str], ...] = ()
    """Variables that belong to these folders."""

    @property
    def hook_folder(self) -> Path:
        return self._below(paths.NODE_HOOK_FOLDER)

    @property
    def hook(self) -> Path:
        return self._below(paths.NODE_HOOK)

    @property
    def preload_file(self) -> Path:
        return self._below(paths.NODE_PRELOAD_FILE)

    @property
    def own_folder_target(self) -> Path:
        """Return the empty folder over which an allocation's own is mounted: a read-only mount cannot grow it."""
        return self._below(paths.NODE_SOCKETS) / paths.OWN_FOLDER

    @property
    def allocations(self) -> Path:
        return self._below(paths.NODE_ALLOCATIONS)

    def allocation(self, key: str) -> Path:
        """Return one allocation's folder."""
        return self.allocations / key

    def socket(self, key: str) -> Path:
        """Return the path of the scheduler's socket in it."""
        return self.allocation(key) / paths.SOCKET_NAME

    def _below(self, path: str) -> Path:
        return self.root / Path(path).relative_to(paths.NODE_ROOT)

"""A run: one folder under the temporary folder that names everything a cluster makes on this machine.

The rule: a run lives as long as its owner.  The owner is a process, and its start time distinguishes it from a later
process with the same number.  Whatever belongs to a run without a living owner is a leftover.
"""

import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNFINISHED = ".new-"


def root() -> Path:
    folder = Path(tempfile.gettempdir()) / f"nvshare-guard-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its number, and when it started in the kernel's ticks."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Owner":
        return cls(pid, _start_ticks(pid) or 0)

    @property
    def is_alive(self) -> bool:
        return _start_ticks(self.pid) == self.started


def _start_ticks(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the command's name (in brackets) may hold anything; state is the first word after it, start time the twentieth
    words = status.rpartition(")")[2].split()
    return None if words[0] in "ZX" else int(words[19])


@dataclass(frozen=True, slots=True)
class Run:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def owner(self) -> Owner:
        return Owner(*json.loads((self.folder / "owner.json").read_text())["owner"])

    def hand_over_to(self, pid: int) -> None:
        """Let the run live as long as another process; in this way `up` leaves a cluster behind."""
        _write(self.folder, Owner.of(pid))


def _write(folder: Path, owner: Owner) -> None:
    unfinished = folder / "owner.json.unfinished"
    unfinished.write_text(json.dumps({"owner": [owner.pid, owner.started]}))
    unfinished.rename(folder / "owner.json")


def begin() -> Run:
    """Begin a new run, owned by this process."""
    name = secrets.token_hex(3)
    unfinished = root() / f"{_UNFINISHED}{name}"
    unfinished.mkdir(mode=0o755)
    _write(unfinished, Owner.of(os.getpid()))
    return Run(unfinished.rename(root() / name))


def known() -> Iterator[Run]:
    """Yield every run on this machine that still has its folder."""
    for record in sorted(root().glob("[0-9a-f]*/owner.json")):
        yield Run(record.parent)


def never_begun() -> Iterator[Path]:
    """Yield the folders of runs that were killed before they had an owner."""
    a_minute_ago = time.time() - 60
    yield from (path for path in root().glob(f"{_UNFINISHED}*") if path.stat().st_mtime < a_minute_ago)

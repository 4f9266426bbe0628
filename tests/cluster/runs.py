"""A run: one folder under the temporary folder that names everything a cluster makes on this machine.

The rule here: a run lives as long as its owner (a process, told from a later one with the same number by its start
time); whatever belongs to a run without a living owner is a leftover.  May import `cache` and `errors`.
"""

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import locked
from tests.cluster.errors import BrokenError

SUBNETS = 90
"""Runs that may have a network at once: each has 10.<100 + subnet>.0.0/16 for itself."""


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
    subnet: int

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def owner(self) -> Owner:
        return Owner(*json.loads((self.folder / "run.json").read_text())["owner"])

    def hand_over_to(self, pid: int) -> None:
        """Let the run live as long as another process: that is how `up` leaves a cluster behind."""
        _write(self.folder, self.subnet, Owner.of(pid))


def _write(folder: Path, subnet: int, owner: Owner) -> None:
    unfinished = folder / "run.json.unfinished"
    unfinished.write_text(json.dumps({"subnet": subnet, "owner": [owner.pid, owner.started]}))
    unfinished.rename(folder / "run.json")


def begin() -> Run:
    """A new run, owned by this process."""
    with locked(root() / "runs.lock"):
        taken = {run.subnet for run in known()} | _routed_subnets()
        subnet = next((number for number in range(SUBNETS) if number not in taken), None)
        if subnet is None:
            raise BrokenError("every 10.100.0.0/16 to 10.189.0.0/16 is in use", "end some runs: make cluster-down")
        folder = root() / secrets.token_hex(3)
        folder.mkdir(mode=0o755)
        _write(folder, subnet, Owner.of(os.getpid()))
        return Run(folder, subnet)


def known() -> Iterator[Run]:
    """Every run on this machine that still has its folder."""
    for record in sorted(root().glob("*/run.json")):
        yield Run(record.parent, json.loads(record.read_text())["subnet"])


def _routed_subnets() -> set[int]:
    """The numbers of ours that this machine already routes somewhere (another user's run, or a real network)."""
    table = Path("/proc/net/route")
    lines = table.read_text().splitlines()[1:] if table.exists() else []
    # the second column is the destination in the kernel's byte order: 0000650A is 10.101.0.0
    destinations = (bytes.fromhex(line.split()[1])[::-1] for line in lines)
    return {address[1] - 100 for address in destinations if address[0] == 10}

"""A node's control groups: one group of its own in every hierarchy, in which the kubelet puts all pods.

The rule: everything that a run made is below `guard-<run>-…`, so removing those groups removes everything.  It works
with cgroup v1 (one hierarchy a controller) and v2 (a single one).
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.cluster.errors import BrokenError
from testbed.cluster.machine.runs import Run

ROOT = Path("/sys/fs/cgroup")
_SECONDS_TO_DIE = 10.0


def is_unified() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> Iterator[Path]:
    """Yield every mounted hierarchy: the one of v2, or the folders of v1 (of which `unified` has no controllers)."""
    if is_unified():
        yield ROOT
    else:
        # symbolic links (cpu -> cpu,cpuacct) would count twice
        yield from (path for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.is_symlink())


def group_name(run: Run, node: str) -> str:
    return f"guard-{run.name}-{node}"


def make(run: Run, node: str) -> str:
    """Make the node's group; return its name as the kubelet's `cgroupRoot` needs it."""
    name = group_name(run, node)
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset":  # v1: a new cpuset is empty, and nothing can run in it
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((hierarchy / setting).read_text())
        if is_unified():
            controllers = (group / "cgroup.controllers").read_text().split()
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))
    return f"/{name}"


def remove(run: Run) -> None:
    """End what still runs in the run's groups, and remove the groups."""
    for hierarchy in hierarchies():
        for group in hierarchy.glob(f"guard-{run.name}-*"):
            _remove_group(group)


def _remove_group(group: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_DIE
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            _end_members(Path(folder))
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if time.monotonic() > deadline:
            raise BrokenError(f"{group} cannot be removed", f"see which processes are in it: cat {group}/cgroup.procs")
        time.sleep(0.02)


def _end_members(group: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

"""A node's own namespaces: mounts, processes, network, host name.

The rule: a node's fixed paths (/var/lib/kubelet/device-plugins, /var/lib/nvshare, /run) are folders of its run.  So two
nodes on one machine never meet.  Killing its first process ends all of it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.cluster.errors import BrokenError, MissingError
from testbed.cluster.machine.processes import MARK, Process
from testbed.cluster.machine.runs import Run
from testbed.cluster.shell import run_command

FOLDERS = (
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/cni",
    "/var/lib/nvshare",
    "/var/lib/simgpu",
    "/var/log/pods",
    "/var/log/containers",
    "/etc/cni/net.d",
    "/etc/cdi",
    "/etc/containerd",
    "/etc/nvidia-container-runtime",
    "/run",
)
"""The folders that a node has for itself; /var/run is /run."""
_PID_FILE = "init.pid"
_INIT = Path(__file__).with_name("node_init.py")
_ENOUGH_MEMORY_KB = 8 << 20
_ENTER = ("--mount", "--net", "--pid", "--ipc", "--uts")


def _has_memory_for_images() -> bool:
    """Return whether images may be kept in memory.

    There they are ready, and removed, ten seconds sooner: they are tens of thousands of small files.
    """
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(meminfo["MemAvailable"].split()[0]) > _ENOUGH_MEMORY_KB


def enter(init_pid: int, *command: str) -> list[str]:
    """Return the command that runs another command inside of a node."""
    return ["nsenter", "--target", str(init_pid), *_ENTER, "--", *command]


def init_pids(run: Run) -> list[int]:
    """Return the first processes of a run's nodes, for a caller that did not start them."""
    return [int(path.read_text()) for path in sorted(run.folder.glob(f"*/{_PID_FILE}"))]


class Sandbox:
    """The namespaces of one node, from its first process on."""

    def __init__(self, run: Run, name: str, *, stays: bool) -> None:
        self._run = run
        self._disk = run.folder / name
        wanted = {
            "name": name,
            "stays": stays,
            "folders": [[str(self.path(inside)), inside] for inside in FOLDERS],
            "in_memory": ["/var/lib/containerd"] if _has_memory_for_images() else [],
        }
        unshare = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--"]
        self._process = subprocess.Popen(
            [*unshare, sys.executable, "-I", "-S", str(_INIT), json.dumps(wanted)],
            stdin=subprocess.DEVNULL if stays else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, MARK: run.name},
            start_new_session=True,
            text=True,
        )
        self.init_pid = self._read_pid()
        (self._disk / _PID_FILE).write_text(str(self.init_pid))

    def _read_pid(self) -> int:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if not answer:
            said = self._process.communicate()[1].strip()[-500:]
            raise MissingError(f"a node's namespaces cannot be made: {said}", "run as root outside of a container")
        return int(answer)

    def path(self, inside: str) -> Path:
        """Return where a path of the node lies on this machine."""
        return self._disk / inside.lstrip("/")

    def command(self, *command: str) -> list[str]:
        return enter(self.init_pid, *command)

    def call(self, *command: str, stdin: str | None = None) -> str:
        """Run a command inside and return its output."""
        return run_command(*self.command(*command), stdin=stdin)

    def process(self, name: str, command: Sequence[str], *, path: Sequence[str] = ()) -> "InsideProcess":
        """Prepare a program that will run inside; `path` goes before the PATH that it has."""
        environment = {MARK: self._run.name, "PATH": ":".join([*path, os.environ["PATH"], "/usr/sbin", "/sbin"])}
        full = self.command(*command)
        return InsideProcess(name=name, command=full, logs=self._run.logs, environment=environment)

    def end(self) -> None:
        self._process.kill()  # --kill-child: the first process dies with it, and the rest with that
        self._process.wait()


class InsideProcess(Process):
    """A program inside a sandbox.  Its direct process is `nsenter`, which passes on no signals."""

    @property
    def pid(self) -> int:
        return _only_child(super().pid)


def _only_child(parent: int) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) == parent:
                return int(entry.name)
    raise BrokenError(f"process {parent} has no child", "it has just ended: see its log")

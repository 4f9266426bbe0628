"""What a step runs in: its own software GPU, and under the hook its own daemon with two containers.

The rule: nothing is shared between two runs.  The containers are allocations in a folder, as the device plugin makes
them, so all processes of a step are one container with one mode and one cap.  The hook runs stand-alone here: it finds
its own socket through NVSHARE_SOCKETS, and needs no root.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from contract.allocation import Allocation, key_of, render
from contract.wire.control import PodFacts
from contract.words import names, paths
from testbed.frameworks.errors import StepError
from testbed.frameworks.table import Step

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
HOOK = BUILD / "hook" / "libnvshare.so"
READY_SECONDS = 30.0
END_SECONDS = 10.0
POLL_SECONDS = 0.02
COMPETITOR = "competitor"
STEP = "step"


@dataclass(frozen=True)
class Containers:
    """The environments of the two containers on a node."""

    step: Mapping[str, str]
    competitor: Mapping[str, str]


@contextmanager
def daemon(folder: Path, step: Step, environ: Mapping[str, str], uuids: Sequence[str]) -> Iterator[Containers]:
    """Run a scheduler daemon for two containers, which both have these GPUs, while the block runs."""
    allocations = folder / "a"
    facts = PodFacts(uid="step", mode=step.mode, memory=step.memory, allocation=step.allocation)
    first = _allocate(allocations, 0, uuids, facts)
    second = _allocate(allocations, 1, uuids, PodFacts(uid=COMPETITOR))
    command = [sys.executable, "-m", "schedulerd", "--allocations", str(allocations), "--observer", "none"]
    command += ["--control", str(folder / "c.sock"), "--side-by-side", "never", "--quantum", "100ms"]
    with running(command, folder / "daemon.log", {**os.environ, **environ}) as process:
        for key in (first, second):
            _wait_for(allocations / key / paths.SOCKET_NAME, process, folder / "daemon.log")
        yield Containers(_hooked(folder, allocations / first, STEP), _hooked(folder, allocations / second, COMPETITOR))


def _allocate(folder: Path, number: int, uuids: Sequence[str], facts: PodFacts) -> str:
    """Make an allocation's folder as the device plugin does, with what the cluster would say of its pod."""
    ids = tuple(f"{uuid}::{number}" for uuid in uuids)
    allocation = Allocation(key=key_of(ids), device_ids=ids, uuids=tuple(uuids), created=time.time())
    own = folder / allocation.key
    own.mkdir(parents=True)
    (own / paths.ALLOCATION_FILE).write_text(render(allocation))
    (own / "pod.json").write_text(json.dumps({"of": allocation.container, **asdict(facts)}))
    return allocation.key


def _hooked(folder: Path, allocation: Path, label: str) -> dict[str, str]:
    """Return the environment of a container: its own sockets folder, in which `mine` is its allocation."""
    sockets = folder / label
    sockets.mkdir()
    (sockets / "mine").symlink_to(allocation)
    return {
        names.ENV_PRELOAD: str(HOOK),
        names.ENV_SOCKETS: str(sockets),
        names.ENV_LOG: "summary",
        "SIMGPU_LABEL": label,
    }


@contextmanager
def running(command: Sequence[str], log: Path, environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process while the block runs; its output goes to `log`."""
    with log.open("wb") as out, ExitStack() as ends:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=dict(environ), cwd=ROOT, start_new_session=True
        )
        ends.callback(end, process)
        yield process


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end; kill its whole session where it does not."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        kill_session(process)


def kill_session(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process and all that it started: it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(socket: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise StepError(
                f"the daemon does not listen in {socket.parent}: {log.read_text(errors='replace')[-1000:]}",
                "read the daemon's words above",
            )
        time.sleep(POLL_SECONDS)

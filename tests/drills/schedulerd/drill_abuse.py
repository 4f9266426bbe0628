"""What one hostile container does to its neighbours: hundreds of connections, valid lines, a tenth of a core.

The figures: how long a neighbour on another GPU waits for its grants, and what the daemon needs of its memory limit,
socket buffers in the kernel included.  Where the machine has control groups (as root), the hostile container is held
to 100 milli-CPU and the daemon to the limit of its manifest; elsewhere both go without, and the figures say so.
The daemon and the neighbour go first: what other programs of the machine take from them is not what is asked here.
"""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import yaml

from contract.wire.numbers import ANNOUNCE_MS
from tests.fakes.wire.abuser import KINDS
from tests.fakes.wire.allocations import Containers, known_containers
from tests.fakes.wire.client import Client, Silence
from tests.runners.bench import percentile
from tests.runners.drills import Drill, count
from tests.runners.realtime import going_first

ROOT = Path(__file__).parents[3]
GROUPS = Path("/sys/fs/cgroup")
CONNECTIONS = 250
MIB = 1 << 20
_SERIAL = itertools.count()
MOST_P99_MS = 10.0
EXCLUSIVE = "--side-by-side=never"


def memory_limit() -> int:
    """Return the bytes that the manifest gives the daemon."""
    text = (ROOT / "manifests/base/schedulerd.yaml").read_text()
    (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * MIB


@contextlib.contextmanager
def group(controller: str, settings: dict[str, object]) -> Iterator[Path | None]:
    """Make a control group (version 1) with these settings; return None where this machine gives none."""
    folder = GROUPS / controller / f"nvshare-drill-{os.getpid()}-{next(_SERIAL)}"
    try:
        folder.mkdir()
        for name, value in settings.items():
            (folder / name).write_text(str(value))
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Remove a control group as soon as its last process is gone."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.01)
        else:
            return


def put_into(folder: Path | None, pid: int) -> None:
    if folder is not None:
        (folder / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def abuser(kind: str, path: Path, gpu: str, connections: int) -> Iterator[None]:
    """Run a hostile container for the length of a block, held to a tenth of a core."""
    command = [sys.executable, "-m", "tests.fakes.wire.abuser", kind, str(path), gpu, str(connections)]
    with group("cpu", {"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": 10_000}) as slow:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise Silence("the hostile container did not start")
            put_into(slow, process.pid)
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def grants_of_a_neighbour(client: Client, seconds: float) -> list[float]:
    """Return milliseconds from `want` to `grant`, sorted, with a pause after each turn as programs make it."""
    waits, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        client.want()
        client.until("grant")
        waits.append((time.perf_counter() - began) * 1e3)
        client.done(reason="idle")
        time.sleep(0.002)
    return sorted(waits)


class Memory:
    """What a daemon needs: what it had when it was put into its control group, and the most that the group has had."""

    def __init__(self, pid: int, held: Path | None) -> None:
        self.turns, self.held = psutil.Process(pid), held
        self.before = self.turns.memory_info().rss
        put_into(held, pid)

    def most(self) -> tuple[int, str]:
        """Return bytes, and how they were measured."""
        if self.held is None:
            return self.turns.memory_info().rss, "without what the kernel holds for it"
        most = int((self.held / "memory.max_usage_in_bytes").read_text())
        return self.before + most, "with what the kernel holds for it"


def abuse(kind: str, seconds: float, *, connections: int = CONNECTIONS, containers: int = 1) -> str:
    """Have containers misbehave; return the figures, or raise them where they are beyond the limits."""
    with (
        tempfile.TemporaryDirectory() as name,
        group("memory", {"memory.limit_in_bytes": memory_limit()}) as held,
        known_containers(Path(name), EXCLUSIVE) as node,
        contextlib.ExitStack() as hostile,
    ):
        assert node.daemon.process is not None
        memory = Memory(node.daemon.process.pid, held)
        hostile.enter_context(going_first(os.getpid(), node.daemon.process.pid))
        neighbour = joined(node, "neighbour", "GPU-1")
        before = grants_of_a_neighbour(neighbour, min(2.0, seconds))
        for number in range(containers):
            socket = add(node, f"hostile{number}", "GPU-2")
            hostile.enter_context(abuser(kind, socket, "GPU-2", connections))
        busy = sum(memory.turns.cpu_times()[:2])
        during = grants_of_a_neighbour(neighbour, seconds)
        busy = (sum(memory.turns.cpu_times()[:2]) - busy) / seconds
        began = time.monotonic()
        joined(node, "newcomer", "GPU-3").close()
        newcomer = time.monotonic() - began
        neighbour.close()
        return judged(f"{kind}, {busy:.0%} of a core", node, memory, before, during, newcomer)


def judged(
    kind: str, node: Containers, memory: Memory, before: list[float], during: list[float], newcomer: float
) -> str:
    """Return what was measured in one line; raise it where it is beyond the limits."""
    assert node.daemon.process is not None
    if node.daemon.process.poll() is not None or "Traceback" in node.daemon.log():
        raise AssertionError(f"the daemon has ended, or stumbled: {node.daemon.log()[-2000:]}")
    used, how = memory.most()
    p50, p99, worst = percentile(during, 50), percentile(during, 99), during[-1]
    alone = f"{percentile(before, 50):.2f}, {percentile(before, 99):.2f}, {before[-1]:.1f}"
    figures = (
        f"{kind}: a neighbour's grant p50 {p50:.2f} ms, p99 {p99:.2f} ms, worst {worst:.1f} ms"
        f" of {len(during)} (alone: {alone}); a newcomer's welcome "
        f"{newcomer * 1e3:.0f} ms; memory {used / MIB:.0f} of {memory_limit() // MIB} MiB, {how}"
    )
    if p99 > MOST_P99_MS or used > memory_limit() / 2:
        raise AssertionError(figures)
    return figures


def add(node: Containers, key: str, gpu: str) -> Path:
    """Make a container that the daemon knows, and return its socket."""
    node.add(key, gpu, weight=100)
    return node.allocations / key / "scheduler.sock"


def joined(node: Containers, key: str, gpu: str) -> Client:
    return Client(add(node, key, gpu), container=key, gpus=gpu)


def storm(node: Containers, processes: int) -> float:
    """Return seconds until all processes of an honest container are welcomed, when all say hello at once."""
    path = add(node, "honest", "GPU-1")
    began = time.monotonic()
    clients = [Client(path, container="honest", hello=False) for _ in range(processes)]
    for client in clients:
        client.say("hello", v=1, pid=os.getpid(), gpus="GPU-1")
        client.say("using", gpu="GPU-1", pageable=1 << 30, unpageable=0)
    for client in clients:
        client.until("welcome")
    took = time.monotonic() - began
    for client in clients:
        client.close()
    return took


def honest_storm(processes: int) -> str:
    """Bring all processes of the largest container back at once, as after a restart of the daemon."""
    with tempfile.TemporaryDirectory() as name, known_containers(Path(name), EXCLUSIVE) as node:
        took = storm(node, processes)
    if took > ANNOUNCE_MS / 1000:
        raise AssertionError(f"{processes} processes were welcomed after {took:.2f} s, too late to keep their turns")
    return f"{processes} processes of one container said hello at once: all welcomed after {took * 1e3:.0f} ms"


DRILLS = [
    *(Drill(f"a hostile container with a tenth of a core: {kind}", partial(abuse, kind, count(30))) for kind in KINDS),
    Drill("five hostile containers that never read", lambda: abuse("unread", count(30), containers=5)),
    Drill("the largest honest container comes back at once", lambda: honest_storm(256)),
]

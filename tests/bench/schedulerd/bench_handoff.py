"""What a hand-off costs beside a C epoll echo in the same run; what an idle daemon costs; memory; the load query.

The clients are one C program, so both daemons are measured in the same way.  The time runs from just before `done` is
written to the moment at which `epoll_wait` has the next client's `grant`.  The echo does the least that is possible: it
reads, takes the next of a ring and writes a fixed line, with no gate, no turn to check and no `wanted`.  Both run
alternately, and the median of the rounds counts.  Both are measured in two places.  On the clients' own core the echo
is fastest, and no waking up hides our own cost.  On another core, waking up across cores is much of the time of both.
"""

import contextlib
import os
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from contract.wire.load import QUERY, decode_load
from schedulerd.control.client import ControlClient
from tests.fakes.wire.client import PATIENCE, Client, Daemon
from tests.fakes.wire.observed_daemon import observed_daemon
from tests.runners.bench import Row, percentile

HERE = Path(__file__).parent
HANDOFFS = 8_000
ROUNDS = 7
CORES = sorted(os.sched_getaffinity(0))
PLACES = {"one core": CORES[-1], "a core each": CORES[0]}
"""Where the clients run; the daemons are on the last core."""


def compiled(name: str, folder: Path) -> Path:
    """Build a C program of this folder into another folder."""
    program = folder / name
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-Wstrict-prototypes"]
    subprocess.run(["gcc", "-O2", "-std=c11", *warnings, "-o", program, HERE / f"{name}.c"], check=True)
    return program


def handoffs(program: Path, path: Path, clients: int, *, core: int, hello: bool) -> list[float]:
    """Return microseconds from `done` to the next `grant`, sorted."""
    command = [str(program), str(path), str(clients), str(HANDOFFS), *(["hello"] if hello else [])]
    with started_on(core):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return sorted(map(float, said.split()))


@contextlib.contextmanager
def started_on(core: int) -> Iterator[None]:
    """Start processes on that core while the block runs."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def echo(program: Path, path: Path) -> Iterator[None]:
    with started_on(CORES[-1]):
        process = subprocess.Popen([program, path])
    try:
        _wait_for(path)
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for(path: Path) -> None:
    until = time.monotonic() + PATIENCE
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        while probe.connect_ex(str(path)) != 0:
            assert time.monotonic() < until, f"nobody listens on {path}"
            time.sleep(0.005)


def bench() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clients, yardstick = compiled("clients", folder), compiled("echo", folder)
        for count in (2, 200):
            for place in PLACES:
                yield from _handoff(folder, (clients, yardstick), count, place)
        yield from _footprint(folder)


def _handoff(folder: Path, programs: tuple[Path, Path], count: int, place: str) -> Iterator[Row]:
    """Turn about, so that a noisy moment meets both; the observer runs, and somebody reads the metrics each round."""
    (clients, yardstick), core = programs, PLACES[place]
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    with observed_daemon(folder, "--policy=fair", "--side-by-side=never") as (daemon, observer):
        assert daemon.process is not None
        os.sched_setaffinity(daemon.process.pid, {CORES[-1]})
        for number in range(ROUNDS):
            path = folder / f"echo-{count}-{core}-{number}"
            with echo(yardstick, path):
                theirs.append(handoffs(clients, path, count, core=core, hello=False))
            _scrape(observer)
            ours.append(handoffs(clients, daemon.socket, count, core=core, hello=True))
    for percent, limit in ((50, 3.0), (99, None)):
        c = statistics.median(percentile(figures, percent) for figures in theirs)
        python = statistics.median(percentile(figures, percent) for figures in ours)
        yield Row(
            what=f"hand-off p{percent}, {count} clients, {place}", value=python, unit="us", against=f"C echo {c:.1f} us"
        )
        yield Row(what=f"  times the C echo, p{percent}", value=python / c, unit="x", limit=limit)


def _scrape(observer: psutil.Process) -> int:
    """Return the bytes of the page of metrics."""
    port = next(one.laddr.port for one in observer.net_connections() if one.status == psutil.CONN_LISTEN)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return len(answer.read())


def _footprint(folder: Path) -> Iterator[Row]:
    """Measure the memory for 16 GPUs and 200 clients that have all of them."""
    gpus = ",".join(f"GPU-{number}" for number in range(16))
    with observed_daemon(folder, "--side-by-side=never") as (daemon, observer):
        assert daemon.process is not None
        turns = psutil.Process(daemon.process.pid)
        everybody = [
            Client(daemon.socket, container=f"c{i}", gpus=gpus, mode="gang" if i % 4 == 0 else "per-device")
            for i in range(200)
        ]
        for client in everybody:
            client.want()
        yield Row(what="load query, 200 x 16 waiting, p50", value=_load_query(daemon), unit="ms", limit=2.0)
        page = _scrape(observer)
        mib = 1 << 20
        yield Row(
            what="memory of the turn process, 16 x 200", value=turns.memory_info().rss / mib, unit="MiB", limit=40
        )
        both = (turns.memory_info().rss + observer.memory_info().rss) / mib
        yield Row(
            what="memory of both", value=both, unit="MiB", limit=100, note=f"after a page of {page / mib:.1f} MiB"
        )
        for client in everybody:
            client.close()
    yield from _idle(folder)


def _load_query(daemon: Daemon) -> float:
    figures = []
    for _ in range(50):
        with ControlClient(daemon.control) as client:
            began = time.perf_counter()
            client._socket.sendall(QUERY)
            decode_load(iter(client._file.readline, b""))
            figures.append((time.perf_counter() - began) * 1e3)
    return statistics.median(figures)


def _idle(folder: Path) -> Iterator[Row]:
    """Measure 200 clients at rest: both processes together, over ten seconds."""
    with observed_daemon(folder, "--side-by-side=never") as (daemon, observer):
        assert daemon.process is not None
        everybody = [Client(daemon.socket, container=f"c{i}") for i in range(200)]
        time.sleep(2)
        processes = [psutil.Process(daemon.process.pid), observer]
        before = [sum(one.cpu_times()[:2]) for one in processes]
        time.sleep(10)
        after = [sum(one.cpu_times()[:2]) for one in processes]
        turn, seen = ((end - begin) * 10 for begin, end in zip(before, after, strict=True))
        yield Row(what="idle turn process, 200 clients at rest", value=turn, unit="%", limit=0.5, against="of a core")
        yield Row(what="idle observer", value=seen, unit="%", against="of a core", note=f"{os.cpu_count()} cores")
        for client in everybody:
            client.close()

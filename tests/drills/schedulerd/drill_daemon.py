"""What kills a scheduler, done to this one: real processes, real sockets, full counts.

Each fault that the peers' daemon shows (deaths by two clients' end, a silent holder, a forked child, an open control
socket, a clock step, a thinking client) is a drill here.
"""

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.bench.schedulerd.bench_handoff import observed_daemon
from tests.fakes.wire.client import Client, Daemon, Silence, running_daemon
from tests.fakes.wire.crowd import Crowd, Member, longest_waits
from tests.runners.drills import Drill, count

EXCLUSIVE = "--side-by-side=never"
QUICK = 5.0
"""Seconds for what should take milliseconds; the figures say how long it took."""


@contextlib.contextmanager
def daemon(*flags: str) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder, running_daemon(Path(folder), EXCLUSIVE, *flags) as one:
        yield one
        if "Traceback" in one.log():
            raise AssertionError(one.log()[-2000:])


def holder_and_waiter(one: Daemon) -> tuple[Client, Client]:
    holder, waiter = Client(one.socket, container="holder"), Client(one.socket, container="waiter")
    holder.want()
    holder.hear("grant")
    waiter.want()
    holder.hear("wanted", "yield")
    return holder, waiter


def still_serves(one: Daemon, *, within: float = QUICK) -> float:
    """Seconds until somebody new is served."""
    began = time.monotonic()
    client = Client(one.socket, container=f"new{began}", gpus="GPU-1")
    client.want()
    client.until("grant", within=within)
    client.close()
    assert one.process is not None
    if one.process.poll() is not None:
        raise AssertionError("the daemon has died")
    return time.monotonic() - began


def two_die_together(times: int) -> str:
    """nvshare: dead in 173 of 200."""
    slowest = 0.0
    with daemon() as one:
        for _ in range(times):
            holder, waiter = holder_and_waiter(one)
            third = Client(one.socket, container="third")
            third.want()
            began = time.monotonic()
            holder.close()
            waiter.close()
            third.until("grant", within=QUICK)
            slowest = max(slowest, time.monotonic() - began)
            third.close()
        still_serves(one)
    return f"{times} times: 0 deaths, 0 lost grants, slowest grant {slowest * 1e3:.1f} ms"


def fifty(one: Daemon) -> Crowd:
    members = [Member(f"c{i}", f"GPU-{i % 4}") for i in range(46)]
    members += [Member(f"g{i}", f"GPU-{i},GPU-{(i + 1) % 4}", {"mode": "gang"}) for i in range(4)]
    return Crowd(one.socket, members)


def kill_the_turn_process(times: int) -> str:
    slowest = 0.0
    with daemon("--quantum=10ms") as one:
        crowd = fifty(one)
        everybody = {member.key for member in crowd.members}
        for _ in range(times):
            crowd.run(1.0)
            assert one.process is not None
            one.process.kill()
            one.process.wait()
            crowd.run(0.3)
            one.start()
            crowd.served_since.clear()
            slowest = max(slowest, crowd.run_until(lambda: crowd.served_since >= everybody, 20.0))
        crowd.close()
    return f"{times} kills, 50 clients: 0 double grants, all 50 served again within {slowest:.2f} s of its return"


def kill_the_observer(times: int) -> str:
    with (
        tempfile.TemporaryDirectory() as folder,
        observed_daemon(Path(folder), EXCLUSIVE, "--quantum=10ms") as (one, observer),
    ):
        crowd = fifty(one)
        slowest = 0.0
        for _ in range(times):
            observer.kill()
            crowd.run(1.0)
            began = time.monotonic()
            observer = _observer_of(one)
            slowest = max(slowest, time.monotonic() - began + 1.0)
        worst = max(longest_waits(crowd.members).values())
        crowd.close()
    return f"{times} kills: turns went on (longest wait {worst:.2f} s), it was back within {slowest:.1f} s"


def _observer_of(one: Daemon) -> psutil.Process:
    assert one.process is not None
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for child in psutil.Process(one.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if any(each.status == psutil.CONN_LISTEN for each in child.net_connections()):
                    return child
        time.sleep(0.05)
    raise AssertionError("the observer did not come back")


HOLDER = """
import sys, time
from pathlib import Path
from tests.schedulerd.client import Client
client = Client(Path(sys.argv[1]), container="other-process")
client.want(); client.hear("grant"); print("holds", flush=True)
{then}
time.sleep(60)
"""


@contextlib.contextmanager
def holder_process(one: Daemon, then: str = "") -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-c", HOLDER.format(then=then), str(one.socket)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "holds":
            raise Silence("the other process was not granted anything")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stopped_holder(_times: int = 1) -> str:
    """nvshare: the waiter still blocked after 20 s."""
    with daemon("--grace=500ms") as one, holder_process(one) as process:
        process.send_signal(signal.SIGSTOP)
        waiter = Client(one.socket, container="waiter")
        began = time.monotonic()
        waiter.want()
        waiter.until("grant", within=QUICK)
        waited = time.monotonic() - began
        served = still_serves_after_yield(one, waiter)
    return f"shut out, the next granted after {waited:.2f} s (quantum 0.1 + grace 0.5), others served in {served:.2f} s"


def still_serves_after_yield(one: Daemon, waiter: Client) -> float:
    began = time.monotonic()
    other = Client(one.socket, container="other")
    other.want()
    waiter.until("yield")
    waiter.done()
    other.until("grant")
    return time.monotonic() - began


def killed_with_a_forked_child_alive(times: int) -> str:
    """nvshare: the waiter got the GPU when the child ended, after 7.2 s."""
    slowest = 0.0
    with daemon() as one:
        for _ in range(times):
            fork = "import os\nif os.fork() == 0:\n    time.sleep(60)\nprint('forked', flush=True)"
            with holder_process(one, fork) as process:
                assert process.stdout is not None
                process.stdout.readline()
                waiter = Client(one.socket, container="waiter")
                waiter.want()
                began = time.monotonic()
                process.kill()
                waiter.until("grant", within=QUICK)
                slowest = max(slowest, time.monotonic() - began)
                waiter.close()
    return f"{times} times: granted {slowest * 1e3:.1f} ms after the kill at most"


def flood(seconds: float) -> str:
    with daemon("--quantum=10ms") as one:
        noise = Client(one.socket, container="noise", gpus="GPU-9")
        noise.socket.setblocking(False)
        crowd = Crowd(one.socket, [Member(f"c{i}", "GPU-1") for i in range(4)])
        line = b"done turn=00000000.1 reason=idle\n"
        block, sent, until = line * 128, 0, time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                sent += noise.socket.send(block)
            with contextlib.suppress(BlockingIOError):
                noise.socket.recv(1 << 20)
            crowd.step(0)
        worst = max(longest_waits(crowd.members).values())
        crowd.close()
    return (
        f"{sent // len(line)} lines in {seconds:.0f} s; longest wait of 4 others {worst * 1e3:.0f} ms (quantum 10 ms)"
    )


def never_reads(_times: int = 1) -> str:
    with daemon() as one:
        assert one.process is not None
        before = psutil.Process(one.process.pid).memory_info().rss
        deaf = Client(one.socket, container="deaf", gpus="GPU-9")
        line = b"want gpus=GPU-9\n" * 4096
        with contextlib.suppress(OSError):
            for _ in range(200):
                deaf.socket.sendall(line)
        served = still_serves(one)
        grown = psutil.Process(one.process.pid).memory_info().rss - before
        if grown > 8 << 20:
            raise AssertionError(f"the daemon grew by {grown >> 20} MiB")
    return f"hung up on; memory grew by {grown >> 10} KiB; another was served in {served * 1e3:.1f} ms"


def half_lines_and_megabytes(times: int) -> str:
    with daemon() as one:
        halves = [Client(one.socket, container=f"h{i}") for i in range(50)]
        for client in halves:
            client.socket.sendall(b"want gpus=GP")
        for _ in range(times):
            long = Client(one.socket, container="long")
            with contextlib.suppress(OSError):
                long.socket.sendall(b"x" * (1 << 20))
            long.close()
        served = still_serves(one)
        halves[0].socket.sendall(b"U-1\n")
        halves[0].until("grant")
    return f"50 halves kept, {times} lines of a megabyte refused, served in {served * 1e3:.1f} ms, a half finished"


def many_connections(number: int) -> str:
    """Half have been welcomed, half never say a word; all are there at once."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with daemon() as one:
        assert one.process is not None
        turns = psutil.Process(one.process.pid)
        before, descriptors = turns.memory_info().rss, turns.num_fds()
        welcomed = [_welcomed(one, f"c{i // 200}") for i in range(number // 2)]
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(number - number // 2)]
        for client in silent:
            client.connect(str(one.socket))
        served = still_serves(one)
        there, grown = turns.num_fds() - descriptors, turns.memory_info().rss - before
        if there < number or grown > number * 8192:
            raise AssertionError(f"{there} descriptors for {number} connections, {grown >> 20} MiB more")
        for each in (*welcomed, *silent):
            each.close()
        still_serves(one)
    return f"{there} descriptors, {grown >> 20} MiB more; another served in {served * 1e3:.0f} ms"


def _welcomed(one: Daemon, container: str) -> Client:
    client = Client(one.socket, container=container)
    for each in (client.gate, client.ledger):
        assert each is not None
        each.close()  # a map keeps a descriptor, and we are to have one a connection
    return client


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long step(void) { return rand() % 7200 - 3600; }
int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(which, at);
    if (which == CLOCK_REALTIME) at->tv_sec += step();
    return answer;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def clock_steps(turns: int) -> str:
    """nvshare's quantum moves with the wall clock."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "clock.c").write_text(CLOCK)
        shim = folder / "clock.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, folder / "clock.c", "-ldl"], check=True)
        os.environ["LD_PRELOAD"] = str(shim)
        try:
            one = Daemon(folder, EXCLUSIVE, "--quantum=50ms")
            one.start()
        finally:
            del os.environ["LD_PRELOAD"]
        try:
            crowd = Crowd(one.socket, [Member("a", "GPU-1"), Member("b", "GPU-1")])
            crowd.run(turns * 0.05)
            worst, taken = max(longest_waits(crowd.members).values()), sum(m.turns for m in crowd.members)
            crowd.close()
        finally:
            one.end()
    if taken < turns / 4 or worst > QUICK:
        raise AssertionError(f"{taken} turns, longest wait {worst} s")
    return (
        f"{taken} turns of 50 ms while the wall clock jumped by up to an hour at each look; longest wait {worst:.2f} s"
    )


def a_real_minute(seconds: float) -> str:
    """Three overlapping gangs, per-device and single clients: no deadlock, waits within the bound of the docs."""
    members = [
        Member("ab", "GPU-1,GPU-2", {"mode": "gang"}),
        Member("bc", "GPU-2,GPU-3", {"mode": "gang"}),
        Member("ca", "GPU-1,GPU-3", {"mode": "gang"}, kernel=0.02),
        Member("d", "GPU-1,GPU-2", {"mode": "per-device"}, burst=0.03, rest=0.05),
        Member("e", "GPU-2,GPU-3", {"mode": "per-device"}, burst=0.03, rest=0.05),
        *(Member(f"s{i}", f"GPU-{1 + i % 3}", kernel=0.01) for i in range(6)),
    ]
    with daemon("--quantum=100ms") as one:
        crowd = Crowd(one.socket, members)
        crowd.run(seconds)
        waits = longest_waits(members)
        crowd.close()
    # 4 n + 3 m turns (docs/turns.md): a quantum each, and a drain as long as a busy machine makes it
    bound = (4 * 6 + 3 * len(members)) * (0.1 + 0.3)
    if max(waits.values()) > bound:
        raise AssertionError(f"a wait of {max(waits.values()):.2f} s is beyond {bound:.1f} s: {waits}")
    turns = sum(member.turns for member in members)
    return (
        f"{turns} turns in {seconds:.0f} s, longest wait {max(waits.values()):.2f} s (bound {bound:.1f} s), 0 overlaps"
    )


def a_and_b_on_gpu_1(seconds: float) -> str:
    """A on GPU 1, B on GPUs 1 and 2: the combination never becomes a lock of its own."""
    members = [Member("A", "GPU-1"), Member("B", "GPU-1,GPU-2", {"mode": "gang"})]
    with daemon("--quantum=20ms") as one:
        crowd = Crowd(one.socket, members)
        crowd.run(seconds)
        crowd.close()
    turns = [member.turns for member in members]
    if min(turns) < seconds:
        raise AssertionError(f"turns of A and B: {turns}")
    return f"A had {turns[0]} turns, B {turns[1]}: never both on GPU 1"


def a_silent_scraper(_times: int = 1) -> str:
    """XPUShare: one silent connection stops /metrics."""
    with tempfile.TemporaryDirectory() as folder, observed_daemon(Path(folder), EXCLUSIVE) as (_, observer):
        port = next(one.laddr.port for one in observer.net_connections() if one.status == psutil.CONN_LISTEN)
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=QUICK) as answer:
            answer.read()
        took = time.monotonic() - began
        for one in silent:
            one.close()
    return f"8 silent connections, /metrics answered in {took * 1e3:.0f} ms"


def random_deaths(times: int) -> str:
    """Clients that come and go at every moment: nobody is ever left behind."""
    draw = random.Random(1)
    with daemon("--quantum=5ms") as one:
        crowd = Crowd(one.socket, [Member(f"c{i}", "GPU-1,GPU-2", {"mode": "gang"}) for i in range(6)])
        for _ in range(times):
            member = draw.choice(crowd.members)
            if member.client is not None:
                member.client.close()
            crowd.let_go_of_all(member)
            member.client, member.due = None, []
            crowd.step(draw.uniform(0, 0.01))
            crowd.connect(member)
            crowd.step(draw.uniform(0, 0.01))
        crowd.served_since.clear()
        everybody = {member.key for member in crowd.members}
        crowd.run_until(lambda: crowd.served_since >= everybody, 20)
        crowd.close()
    return f"{times} deaths at random moments: all served afterwards"


DRILLS = [
    Drill("holder and next waiter die together", lambda: two_die_together(count(200))),
    Drill("the turn process is killed under 50 clients", lambda: kill_the_turn_process(count(10))),
    Drill("the observer is killed under 50 clients", lambda: kill_the_observer(count(3))),
    Drill("a holder is stopped (SIGSTOP)", stopped_holder),
    Drill("a holder dies while its forked child lives", lambda: killed_with_a_forked_child_alive(count(20))),
    Drill("a client floods", lambda: flood(count(20))),
    Drill("a client never reads", never_reads),
    Drill("half lines and lines of a megabyte", lambda: half_lines_and_megabytes(count(50))),
    Drill("10,000 connections", lambda: many_connections(count(10_000))),
    Drill("the wall clock steps", lambda: clock_steps(count(400))),
    Drill("gangs, per-device and single clients for a real minute", lambda: a_real_minute(count(60))),
    Drill("A on GPU 1 and B on GPUs 1 and 2 never overlap on GPU 1", lambda: a_and_b_on_gpu_1(count(20))),
    Drill("silent connections to the metrics", a_silent_scraper),
    Drill("clients die at random moments", lambda: random_deaths(count(300))),
]

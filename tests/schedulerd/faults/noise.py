"""Floods, silence, many connections, a clock that steps, and crowds for a while."""

import contextlib
import os
import resource
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from tests.fakes.wire.client import Client, Daemon
from tests.fakes.wire.crowd import Crowd, Member, longest_waits
from tests.fakes.wire.observed_daemon import observed_daemon
from tests.schedulerd.faults.scene import EXCLUSIVE, QUICK, daemon, still_serves


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
    """Hold many connections at once: half are welcomed, half never say a word."""
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
        leaving: list[Client | socket.socket] = [*welcomed, *silent]
        for each in leaving:
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
    """Step the wall clock, with which nvshare's quantum moves."""
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
    """Run three overlapping gangs, per-device and single clients: no deadlock, waits within the bound of the docs."""
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
    """Run A on GPU 1 and B on GPUs 1 and 2: the combination never becomes a lock of its own."""
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
    """Hold a silent connection to /metrics (XPUShare: one stops the page)."""
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

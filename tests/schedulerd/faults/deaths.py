"""Deaths and silences of clients, of the turn process and of the observer."""

import contextlib
import random
import signal
import tempfile
import time
from pathlib import Path

import psutil

from tests.fakes.wire.client import Client, Daemon
from tests.fakes.wire.crowd import Crowd, Member, longest_waits
from tests.fakes.wire.observed_daemon import observed_daemon
from tests.schedulerd.faults.scene import EXCLUSIVE, QUICK, daemon, holder_and_waiter, holder_process, still_serves


def two_die_together(times: int) -> str:
    """Kill two clients at the same time (nvshare: dead in 173 of 200 runs)."""
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


def stopped_holder(_times: int = 1) -> str:
    """Stop the holder (nvshare: the waiter was still blocked after 20 s)."""
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
    """Kill a client whose child lives (nvshare: the waiter got the GPU when the child ended, after 7.2 s)."""
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


def random_deaths(times: int) -> str:
    """Let clients come and go at every moment; no waiter is ever left behind."""
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

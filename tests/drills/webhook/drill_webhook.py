"""The webhook's drills at full count: fuzzing, stalled clients, fresh connections, bursts on a real API server."""

import tempfile
import time
from pathlib import Path

import psutil

from testbed.cluster.kubernetes.control_plane import Options, control_plane
from tests.fakes.stalling_clients import STALLS, hold
from tests.runners.drills import Drill, count
from tests.webhook.cases import OPTED_IN
from tests.webhook.load import Connection, body, bursts
from tests.webhook.real import all_policies, installed, registered, serving, wait_for_policies
from tests.webhook.serving.fuzz_runs import fuzz_pods, fuzz_raw, served


def stalled(clients: int = count(1_200)) -> str:
    """Hold idle, silent and half-handshaken connections, all at once, while good requests are answered."""
    with served() as (server, files):
        share = max(1, clients // 3)
        silent, half, idle = (hold(stall, server.port, files.authority, count=share) for stall in STALLS[:3])
        with silent, half, idle:
            took = []
            for _ in range(20):
                began = time.perf_counter()
                good = Connection(server.port, files.authority)
                assert good.post(body())[0] == 200
                took.append(time.perf_counter() - began)
                good.close()
    assert max(took) <= 1.0, max(took)
    return f"{3 * share} stalled; a good request took at most {max(took) * 1000:.0f} ms"


def fresh_connections(connections: int = count(12_000)) -> str:
    """Open fresh TLS connections; memory must not grow."""
    with served() as (server, files):
        process = psutil.Process(server.worker())

        def connect(times: int) -> float:
            for _ in range(times):
                one = Connection(server.port, files.authority)
                assert one.post(body())[0] == 200
                one.close()
            return float(process.memory_full_info().pss) / 2**20

        before = connect(max(200, connections // 10))
        after = connect(connections)
    assert after - before < 8, (before, after)
    return f"{before:.1f} MiB before, {after:.1f} MiB after"


def burst() -> str:
    """Send 64 reviews at once, ten times in a row, through a real API server with every policy."""
    with control_plane(Options()) as plane:
        plane.create_namespace("on", labels=OPTED_IN)
        plane.create_namespace("off")
        pair = plane.authority.vouch_for("nvshare-webhook", hosts=("127.0.0.1",))
        about = ("--kubeconfig", str(plane.kubeconfig), "--drain-seconds", "0")
        with (
            tempfile.TemporaryDirectory() as name,
            serving(pair.certificate, pair.key, *about, log=Path(name) / "log") as server,
        ):
            bundle = Path(plane.authority.certificate).read_bytes()
            with installed(plane, [*all_policies(), *registered(server, bundle)]):
                wait_for_policies(plane)
                time.sleep(2)
                answers = [answer for answers in bursts(plane, rounds=10) for answer in answers]
    failed = sum(status != 201 for status, _ in answers)
    slowest = max(took for _, took in answers)
    assert not failed, failed
    assert slowest <= 0.5, slowest
    return f"{len(answers)} created, {failed} failed, the slowest in {slowest:.2f} s"


DRILLS: list[Drill] = [
    Drill("1,000,000 raw mutations of a review, no 5xx, no hang", lambda: fuzz_raw(count(1_000_000))),
    Drill("20,000 generated pods, every property of each", lambda: fuzz_pods(count(20_000))),
    Drill("1,200 stalled connections, good requests within 1 s", stalled),
    Drill("12,000 fresh TLS connections, memory flat", fresh_connections),
    Drill("10 bursts of 64 creates, none fails, each within 0.5 s", burst),
]

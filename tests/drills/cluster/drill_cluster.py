"""Clusters begun, killed and begun again, many times and at once: each finds a clean machine."""

import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.cluster.kubernetes.node import Shape, cluster
from testbed.cluster.machine import leftovers, listing
from tests.runners.drills import Drill, count
from tests.system.cluster.runs_apart import CRASHING, REPOSITORY, cli, environment_apart

_BEGIN_AND_END_SECONDS = 9.0


def kill_at_any_moment() -> str:
    """kill -9 at a random moment of a cluster's life, then `down`: the machine is as before."""
    rounds = count(30)
    before = listing.machine()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = environment_apart(folder)
            with subprocess.Popen(
                [sys.executable, "-c", CRASHING], env=environment, cwd=REPOSITORY, stdout=subprocess.DEVNULL
            ) as crashing:
                time.sleep(random.uniform(0.2, _BEGIN_AND_END_SECONDS))
                crashing.send_signal(signal.SIGKILL)
            ours = {path.name for path in Path(folder).glob("nvshare-guard-*/*/")}
            subprocess.run(cli("down"), env=environment, cwd=REPOSITORY, check=True, capture_output=True)
        left = listing.without_other_runs(listing.machine(), ours) - before
        if left:
            raise AssertionError(f"left behind: {sorted(left)[:5]}")
    return f"{rounds} clusters killed"


def clusters_at_once() -> str:
    """Start several clusters side by side, each with two nodes that are Ready."""
    many = count(3)
    with ThreadPoolExecutor(many) as pool:
        seconds = list(pool.map(lambda _: _begin_and_end(), range(many)))
    return f"{many} clusters of 2 nodes at once, the slowest Ready after {max(seconds):.0f} s"


def _begin_and_end() -> float:
    began = time.monotonic()
    with cluster(Shape(nodes=2)):
        return time.monotonic() - began


def abandoned_are_found_once() -> str:
    """Check that nothing is left to remove after all of it."""
    left = leftovers.remove_abandoned(say=print)
    if left:
        raise AssertionError(f"still there: {left}")
    return "no run without an owner"


DRILLS = [
    Drill("a cluster killed at any moment leaves nothing after the next run", kill_at_any_moment),
    Drill("clusters run side by side", clusters_at_once),
    Drill("no run is left without its owner", abandoned_are_found_once),
]

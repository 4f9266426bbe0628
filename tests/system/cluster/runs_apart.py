"""Clusters apart from a developer's own: the command, its environment, and one that waits to be killed."""

import os
import sys
import textwrap
from pathlib import Path

from testbed.cluster import cache

REPOSITORY = Path(__file__).resolve().parents[3]
CRASHING = textwrap.dedent(
    """
    import time
    from testbed.cluster.kubernetes.node import cluster
    with cluster() as made:
        print(made.plane.run.name, made.plane.kubeconfig, flush=True)
        time.sleep(600)
    """
)


def environment_apart(folder: str) -> dict[str, str]:
    """Return an environment whose runs are apart, with the same cache."""
    return {**os.environ, "TMPDIR": folder, "XDG_CACHE_HOME": str(cache.root().parent)}


def cli(*words: str) -> list[str]:
    return [sys.executable, "-m", "testbed.cluster", *words]

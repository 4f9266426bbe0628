"""How long a cluster takes to start on this machine when everything is built, beside the promised time."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from testbed.cluster.kubernetes.control_plane import control_plane
from testbed.cluster.kubernetes.node import Shape, cluster
from tests.runners.bench import Row

_TIMES = 3


def bench() -> Iterator[Row]:
    for what, limit, make in (
        ("control plane: from nothing to ready", 8.0, control_plane),
        ("node: from nothing to Ready, its API server included", 20.0, cluster),
        ("two nodes: from nothing to Ready", None, lambda: cluster(Shape(nodes=2))),
    ):
        begun, ended = zip(*(_measure(make) for _ in range(_TIMES)), strict=True)
        yield Row(what=what, value=max(begun), unit="s", limit=limit, note=f"the slowest of {_TIMES}")
        yield Row(what=f"{what.partition(':')[0]}: ended, nothing left", value=max(ended), unit="s")


def _measure(make: Callable[[], AbstractContextManager[object]]) -> tuple[float, float]:
    """Return the seconds to begin and to end."""
    began = time.monotonic()
    with make():
        ready = time.monotonic()
    return ready - began, time.monotonic() - ready

"""How long an installation takes: from `kubectl apply -k` on a fresh node with the image loaded to a running pod."""

import time
from collections.abc import Iterator

from testbed.cluster.installed import empty_house, pod
from testbed.cluster.machine.processes import wait_until
from tests.runners.bench import Row


def bench() -> Iterator[Row]:
    with empty_house(say=lambda _: None) as house:
        namespace = house.plane.create_namespace("team", labels={"nvshare.com/injection": "enabled"})
        began = time.monotonic()
        house.apply()
        wait_until(lambda: "created" in house.create(namespace, pod("first")), what="it is accepted", seconds=180)
        accepted = time.monotonic() - began
        house.wait_phase(namespace, "first", ("Running",), seconds=180)
        running = time.monotonic() - began
    yield Row(what="apply -k to a vGPU pod accepted by the webhook", value=accepted, unit="s")
    yield Row(what="apply -k to the first vGPU pod Running", value=running, unit="s", limit=60)

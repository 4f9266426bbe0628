"""Silent connections to every port of every component, opened again as soon as they are ended.

They come from a pod that has no GPU and whose namespace has not opted in.  Their effect is counted from outside.
"""

import secrets
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from testbed.cluster.errors import ClusterError
from testbed.cluster.installed import IMAGE, SYSTEM, House, pod
from testbed.cluster.machine.processes import wait_until

_LOOK_SECONDS = 5.0
_COMPONENT = "app.kubernetes.io/name"
NODE_DAEMONS = ("nvshare-device-plugin", "nvshare-schedulerd")
KNOCK = """
import resource, select, socket, sys
number, targets = int(sys.argv[1]), sys.argv[2:]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
watch, held = select.epoll(), {}
def knock(target):
    host, _, port = target.rpartition(":")
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex((host, int(port)))
    held[one.fileno()] = one, target
    watch.register(one, select.EPOLLIN | select.EPOLLRDHUP)
for target in targets:
    for _ in range(number):
        knock(target)
print("knocking", flush=True)
while True:
    for descriptor, _ in watch.poll():
        one, target = held.pop(descriptor)
        one.close()
        knock(target)
"""


@dataclass
class Found:
    """What a flood did."""

    restarts: int = 0
    failed_probes: Counter[str] = field(default_factory=Counter)
    """Of each component, by the kubelet's events."""
    failed_liveness: int = 0
    """Of these, those that restart a container when they go on."""
    scrapes: list[float] = field(default_factory=list)
    """Seconds of each that succeeded."""
    lost_scrapes: int = 0

    def __str__(self) -> str:
        median = statistics.median(self.scrapes) if self.scrapes else float("nan")
        slowest = max(self.scrapes, default=float("nan"))
        return (
            f"{self.restarts} restarts, failed probes: {dict(self.failed_probes) or 0} "
            f"({self.failed_liveness} of liveness), "
            f"{len(self.scrapes)} of {len(self.scrapes) + self.lost_scrapes} scrapes answered "
            f"(median {median * 1e3:.0f} ms, slowest {slowest * 1e3:.0f} ms)"
        )


def flood(house: House, *, connections: int, seconds: float) -> Found:
    """Hold so many connections to each port for so long, and look on."""
    found, began = Found(), restarts(house)
    unhealthy, dying = failed_probes(house), failed_liveness(house)
    with knocking(house, connections):
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            for address in scraped(house):
                scrape(house, address, found)
            time.sleep(min(_LOOK_SECONDS, max(0.0, ends_at - time.monotonic())))
        found.restarts, found.failed_probes = restarts(house) - began, failed_probes(house) - unhealthy
        found.failed_liveness = failed_liveness(house) - dying
    return found


@contextmanager
def knocking(house: House, connections: int) -> Iterator[None]:
    namespace = house.plane.create_namespace(f"strangers-{secrets.token_hex(4)}")
    stranger = pod("stranger")
    (container,) = stranger["spec"]["containers"]
    container["command"] = ["/opt/nvshare/bin/python3", "-c", KNOCK, str(connections), *ports(house)]
    container["resources"] = {"limits": {"cpu": "200m"}}
    assert container["image"] == IMAGE
    try:
        house.start(namespace, stranger)
        wait_until(
            lambda: "knocking" in house.kubectl("logs", "-n", namespace, "stranger"),
            what="the stranger has knocked everywhere",
            seconds=60,
        )
        yield
    finally:
        house.delete_pods(namespace)


def components(house: House) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = house.json("-n", SYSTEM, "get", "pods")["items"]
    return pods


def ports(house: House) -> list[str]:
    """Return every port that a component names, for each of its pods."""
    return [
        f"{each['status']['podIP']}:{port['containerPort']}"
        for each in components(house)
        for container in each["spec"]["containers"]
        for port in container.get("ports", ())
    ]


def restarts(house: House) -> int:
    return sum(status["restartCount"] for each in components(house) for status in each["status"]["containerStatuses"])


def _unhealthy(house: House) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = house.json("-n", SYSTEM, "get", "events", "--field-selector=reason=Unhealthy")[
        "items"
    ]
    return events


def failed_liveness(house: House) -> int:
    return sum(event.get("count") or 1 for event in _unhealthy(house) if event["message"].startswith("Liveness"))


def failed_probes(house: House) -> Counter[str]:
    events = _unhealthy(house)
    component = {each["metadata"]["name"]: each["metadata"]["labels"][_COMPONENT] for each in components(house)}
    found: Counter[str] = Counter()
    for event in events:
        found[component.get(event["involvedObject"]["name"], "gone")] += event.get("count") or 1
    return found


def scraped(house: House) -> list[str]:
    return [
        each["status"]["podIP"]
        for each in components(house)
        if each["metadata"]["labels"].get(_COMPONENT) in NODE_DAEMONS
    ]


def scrape(house: House, address: str, found: Found) -> None:
    began = time.monotonic()
    try:
        house.node.call("wget", "-q", "-T", "5", "-t", "1", "-O", "/dev/null", f"http://{address}:9090/metrics")
    except ClusterError:
        found.lost_scrapes += 1
    else:
        found.scrapes.append(time.monotonic() - began)

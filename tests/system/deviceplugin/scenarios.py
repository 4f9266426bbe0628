"""Scenarios on a real node, each a function of its count: pytest runs a few, `make drills` the full number.

Each raises where the behaviour is not what it should be, and returns its figures.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from contract.words import node
from contract.words.device_id import decode
from testbed.cluster.machine.processes import wait_until
from tests.system.deviceplugin.on_node import NodePlugin, Pods, vgpu_container, vgpu_pod


def assert_books_agree(plugin: NodePlugin) -> None:
    """Check that no slot is used twice, and that the annotation agrees with pod-resources."""

    def told_is_true() -> bool:
        used = plugin.used_by_gpu()
        told = plugin.free_slots_told()
        return bool(told) and told == {uuid: 10 - used.get(uuid, 0) for uuid in told}

    wait_until(told_is_true, what="the annotation equals pod-resources", seconds=15)
    ids = [device_id for each in plugin.assignments() for device_id in each.device_ids]
    assert len(ids) == len(set(ids)), f"a slot has two containers: {Counter(ids).most_common(1)}"


def spread(plugin: NodePlugin, pods: Pods, count: int) -> list[int]:
    """Create so many pods of one vGPU; return how many each GPU has, sorted."""
    pods.create(*(vgpu_pod(f"p{number}", 1) for number in range(count)))
    pods.wait_for("Running")
    used = plugin.used_by_gpu()
    assert_books_agree(plugin)
    return sorted(used.values())


def distinct(plugin: NodePlugin, pods: Pods, rounds: int) -> str:
    """Check that each container's GPUs are distinct, for pods of 2 and 3 vGPUs among pods of one."""
    for number in range(rounds):
        pods.create(vgpu_pod(f"two{number}", 2), vgpu_pod(f"one{number}", 1), vgpu_pod(f"three{number}", 3))
        pods.wait_for("Running")
        for each in plugin.assignments():
            uuids = [decode(device_id).uuid for device_id in each.device_ids]
            assert len(set(uuids)) == len(uuids), f"{each.pod} has {uuids}"
        if number % 3 == 2:
            pods.delete_all()
    pods.delete_all()
    return f"{rounds} pods of 2 and of 3 on distinct GPUs"


def churn(plugin: NodePlugin, pods: Pods, count: int) -> str:
    """Make and delete so many pods in random order; no slot is lost, none is used twice."""
    choose = random.Random(count)
    alive: list[str] = []
    for number in range(count):
        name = f"c{number}"
        pods.create(vgpu_pod(name, choose.choice((1, 1, 1, 2))))
        alive.append(name)
        while len(alive) > choose.randrange(4, 18):
            pods.delete(alive.pop(choose.randrange(len(alive))))
    wait_until(lambda: set(pods.phases()) <= set(alive), what="deleted pods are gone", seconds=180)
    pods.wait_for("Running", alive)
    assert not pods.failures(), pods.failures()
    assert_books_agree(plugin)
    left = len(alive)
    pods.delete_all()
    wait_until(lambda: not plugin.used_by_gpu(), what="all slots are free", seconds=60)
    assert_books_agree(plugin)
    wait_until(lambda: not plugin.allocation_keys(), what="all allocation folders are gone", seconds=60)
    return f"{count} pods, {left} at the end, {Counter(plugin.free_slots_told().values())[10]} GPUs free again"


# ---------------------------------------------------------------------------------------------- under fire
@dataclass
class Watcher:
    """Asks for the node's slots each 100 ms, and makes and deletes pods meanwhile."""

    plugin: NodePlugin
    pods: Pods
    longest_zero: float = 0.0
    polls: int = 0
    made: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> None:
        zero_since: float | None = None
        while not self._stop.wait(0.1):
            now = time.monotonic()
            self.polls += 1
            if self.plugin.slots():
                zero_since = None
                continue
            zero_since = zero_since or now
            self.longest_zero = max(self.longest_zero, now - zero_since)

    def churn(self) -> None:
        alive: list[str] = []
        while not self._stop.wait(0.4):
            name = f"w{self.made}"
            self.made += 1
            self.pods.create(vgpu_pod(name, 1))
            alive.append(name)
            if len(alive) > 8:
                self._delete(alive.pop(0))

    def _delete(self, name: str) -> None:
        self.failures |= {pod: why for pod, why in self.pods.failures().items() if pod not in self.failures}
        with contextlib.suppress(Exception):
            self.pods.delete(name)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        threads = [threading.Thread(target=task) for task in (self.poll, self.churn)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self.failures |= self.pods.failures()

    def figures(self, most_seconds: float) -> str:
        needless = {pod: why for pod, why in self.failures.items() if not _had_to_fail(why)}
        assert not needless, needless
        assert self.longest_zero <= most_seconds, f"no slots for {self.longest_zero:.1f} s"
        return (
            f"no slots for {self.longest_zero:.1f} s at most ({self.polls} polls); "
            f"{len(self.failures)} of {self.made} pods failed, which came while the plugin was away"
        )


def _had_to_fail(why: str) -> bool:
    """Tell whether the kubelet had to fail a pod: it knew no plugin then, or the plugin died in the call."""
    words = ("no healthy devices present", "unregistered resource", "error reading from server", "connection refused")
    return any(word in why for word in (*words, "Unavailable", "transport is closing", "endpoint"))


def under_fire(
    plugin: NodePlugin, pods: Pods, shoot: Callable[[int], None], shots: int, *, most_seconds: float = 5.0
) -> str:
    """Fire so many times while pods come and go; the node must be whole again in between and at the end.

    `most_seconds`: how long the API may say that there are no slots.  A busy machine delays the kubelet itself.
    """
    watcher = Watcher(plugin, pods)
    slots = plugin.slots()
    choose = random.Random(shots)
    with watcher.watching():
        for number in range(shots):
            time.sleep(choose.uniform(0.3, 1.5))  # at any moment of the churn
            shoot(number)
            plugin.wait_until_whole(slots)
    figures = watcher.figures(most_seconds)
    pods.delete_all()
    wait_until(lambda: not plugin.used_by_gpu(), what="all slots are free", seconds=60)
    assert_books_agree(plugin)
    sockets = list(plugin.node.path("/var/lib/kubelet/device-plugins").glob("nvshare-gpu-*.sock"))
    assert len(sockets) == 1, sockets
    return figures


def kill_worker(plugin: NodePlugin) -> Callable[[int], None]:
    """Kill the process that serves, with SIGKILL; its supervisor goes on."""
    return lambda _: os.kill(plugin.worker_pid(), signal.SIGKILL)


def kill_all(plugin: NodePlugin) -> Callable[[int], None]:
    """Kill supervisor and worker with SIGKILL, and start them again."""

    def shoot(_: int) -> None:
        plugin.process.kill()
        plugin.restart()

    return shoot


def kill_kubelet(plugin: NodePlugin) -> Callable[[int], None]:
    """Kill the kubelet with SIGKILL, and leave containerd running."""

    def shoot(_: int) -> None:
        plugin.node.kubelet.process.kill()
        plugin.node.kubelet.process.start()

    return shoot


def kill_both(plugin: NodePlugin) -> Callable[[int], None]:
    """Kill plugin and kubelet together."""
    worker, kubelet = kill_worker(plugin), kill_kubelet(plugin)

    def shoot(number: int) -> None:
        worker(number)
        kubelet(number)

    return shoot


# ---------------------------------------------------------------------------------------------- where room is short
def crowd(plugin: NodePlugin, pods: Pods, seconds: float) -> str:
    """Check a Deployment of two vGPUs where one GPU has room: few failures, an event with the reason, room helps."""
    plane, namespace = plugin.node.plane, pods.namespace
    with_room = leave_room_on_one_gpu(plugin, pods)
    plane.apply(deployment(namespace, "pair", vgpus=2))
    try:
        time.sleep(seconds)  # the time in which failures are counted
        failed = {name: why for name, why in pods.failures().items() if name.startswith("pair")}
        assert len(failed) <= 3 * max(1.0, seconds / 60), f"{len(failed)} pods failed in {seconds:g} s"
        assert all("SameGpu: A container asks for 2 vGPUs" in why for why in failed.values()), failed
        events = plane.kubectl("get", "events", "-n", "default", "-o", "jsonpath={.items[*].reason}").split()
        assert "SameGpu" in events, events
        single = (each for each in plugin.assignments() if len(each.device_ids) == 1)
        other = next(each for each in single if decode(each.device_ids[0]).uuid != with_room)
        pods.delete(other.pod)
        running = ("get", "deployment", "pair", "-n", namespace, "-o", "jsonpath={.status.readyReplicas}")
        wait_until(lambda: plane.kubectl(*running) == "1", what="the pair runs once there is room", seconds=30)
    finally:
        plane.kubectl("delete", "deployment", "pair", "-n", namespace)
    pods.delete_all()
    return f"{len(failed)} pods failed in {seconds:g} s; the pair ran when a second GPU had room"


def leave_room_on_one_gpu(plugin: NodePlugin, pods: Pods) -> str:
    """Fill the node, then delete three pods of one GPU; return its UUID."""
    gpus = len(plugin.free_slots_told())
    pods.insist(*(vgpu_pod(f"all{number}", gpus) for number in range(plugin.slots() // gpus - 3)))
    pods.insist(*(vgpu_pod(f"fill{number}", 1) for number in range(3 * gpus)))
    by_gpu: dict[str, list[str]] = {}
    for each in plugin.assignments():
        if len(each.device_ids) == 1:
            by_gpu.setdefault(decode(each.device_ids[0]).uuid, []).append(each.pod)
    uuid = min(by_gpu)
    pods.delete(*by_gpu[uuid][:3])
    wait_until(lambda: sum(plugin.free_slots_told().values()) == 3, what="three slots are free", seconds=30)
    return uuid


def deployment(namespace: str, name: str, *, vgpus: int) -> dict[str, Any]:
    """Return a Deployment of one replica, with the affinity that the webhook adds for several vGPUs."""
    term = {"matchExpressions": [{"key": node.COUNT, "operator": "Gt", "values": [str(vgpus - 1)]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    containers = [vgpu_container("main", vgpus)]
    spec = {"containers": containers, "terminationGracePeriodSeconds": 0, "affinity": affinity}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }

"""What a container has on a real node: its libraries, its GPUs through restarts and a reboot, its init containers.

Each function raises where the behaviour is not what it should be, and returns its figures.
"""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from contract.allocation import Allocation, key_of, parse
from contract.words import names, paths
from testbed.cluster.machine.processes import wait_until
from tests.system.deviceplugin.on_node import (
    GLIBC_IMAGE,
    OWN_LIBRARY,
    NodePlugin,
    Pods,
    scheduler,
    vgpu_container,
    vgpu_pod,
)

WAITING = "metrics on port"
"""What the plugin says when all of it is up."""
SHOW_MAPS = "cat /proc/self/maps; sleep 100000"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def glibc_pod(name: str, *, preload: str | None, **more: Any) -> dict[str, Any]:
    """Return a pod of one vGPU that shows which libraries its program has."""
    env = [] if preload is None else [{"name": names.ENV_PRELOAD, "value": preload}]
    pod = vgpu_pod(name)
    container = vgpu_container("main", 1, SHOW_MAPS, image=GLIBC_IMAGE, env=env, **more)
    pod["spec"]["containers"] = [container]
    return pod


def libraries(plugin: NodePlugin, pods: Pods, name: str) -> set[str]:
    """Return our libraries and the user's from the memory map that the pod has shown."""
    maps = plugin.node.plane.kubectl("logs", "-n", pods.namespace, name)
    return {path for path in (paths.CONTAINER_HOOK, OWN_LIBRARY) if path in maps}


def preload(plugin: NodePlugin, pods: Pods) -> str:
    """Check that our library is loaded whatever the pod does with LD_PRELOAD, and that the user's own stays."""
    pods.create(
        glibc_pod("plain", preload=None),
        glibc_pod("emptied", preload=""),
        glibc_pod("own", preload=OWN_LIBRARY),
        glibc_pod("both", preload=f"{paths.CONTAINER_HOOK}:{OWN_LIBRARY}"),
    )
    pods.wait_for("Running")
    ours, both = {paths.CONTAINER_HOOK}, {paths.CONTAINER_HOOK, OWN_LIBRARY}
    for name, expected in {"plain": ours, "emptied": ours, "own": both, "both": both}.items():
        _wait_for_libraries(plugin, pods, name, expected)
    return "4 pods"


def preload_under_restriction(plugin: NodePlugin, pods: Pods) -> str:
    """Check the same for a pod that Pod Security `restricted` admits, without volumes of ours in its spec."""
    pods.create(glibc_pod("restricted", preload="", securityContext=RESTRICTED))
    pods.wait_for("Running")
    _wait_for_libraries(plugin, pods, "restricted", {paths.CONTAINER_HOOK})
    return "1 pod"


def _wait_for_libraries(plugin: NodePlugin, pods: Pods, name: str, expected: set[str]) -> None:
    what = f"{name} has {sorted(expected)} in its memory map"
    wait_until(lambda: libraries(plugin, pods, name) == expected, what=what, seconds=15)


def init_containers(plugin: NodePlugin, pods: Pods) -> str:
    """Check an init container with one vGPU before a container with two: each finds its own folder."""
    show = f"ls {paths.CONTAINER_SOCKETS}/mine; cat {paths.CONTAINER_SOCKETS}/mine/{paths.ALLOCATION_FILE}"
    pod = vgpu_pod("staged")
    # the first one runs for longer than a folder lives unused
    pod["spec"]["initContainers"] = [vgpu_container("first", 1, f"sleep 8; {show}")]
    pod["spec"]["containers"] = [vgpu_container("main", 2, f"{show}; sleep 100000")]
    alone = vgpu_pod("alone")
    alone["spec"]["initContainers"] = [vgpu_container("first", 1, f"sleep 8; {show}")]
    alone["spec"]["containers"] = [vgpu_container("main", 0)]
    pods.create(pod, alone)
    pods.wait_for("Running")
    first, main, init_alone = (
        _shown_record(plugin, pods, *who) for who in (("staged", "first"), ("staged", "main"), ("alone", "first"))
    )
    assert len(first["uuids"]) == len(init_alone["uuids"]) == 1
    assert len(set(main["uuids"])) == 2
    assert set(first["device_ids"]) < set(main["device_ids"]), "the kubelet uses an init container's slot again"
    return "2 pods"


def _shown_record(plugin: NodePlugin, pods: Pods, pod: str, container: str) -> dict[str, list[str]]:
    lines = plugin.node.plane.kubectl("logs", "-n", pods.namespace, pod, "-c", container).splitlines()
    assert lines[0] == paths.ALLOCATION_FILE
    record: dict[str, list[str]] = json.loads(lines[-1])
    return record


def restarts(plugin: NodePlugin, pods: Pods) -> str:
    """Check that containers which the kubelet starts again keep their GPUs."""
    pod = vgpu_pod("again", restartPolicy="Always")
    pod["spec"]["containers"] = [vgpu_container("main", 2, "echo $NVIDIA_VISIBLE_DEVICES; sleep 1; exit 1")]
    pods.create(pod)
    kubectl, where = plugin.node.plane.kubectl, ("-n", pods.namespace, "again")
    count = ("get", "pod", *where, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    wait_until(lambda: kubectl(*count) not in ("", "0"), what="the container was started again", seconds=60)
    first, second = kubectl("logs", *where, "--previous"), ""
    wait_until(lambda: kubectl("logs", *where, check=False).strip() != "", what="it speaks", seconds=30)
    second = kubectl("logs", *where)
    assert first == second, f"first {first}, then {second}"
    assert first.count("GPU-") == 2
    return "2 GPUs kept"


def reboot(plugin: NodePlugin, pods: Pods) -> str:
    """Check that no allocation is lost and no pod fails when all processes and /var/run of a node are gone.

    The plugin waits for the kubelet here.  A kubelet that admits pods before any plugin has registered fails them by
    itself, whatever the plugin does (kubernetes/kubernetes issue 125579).
    """
    pods.create(
        *(vgpu_pod(f"r{number}", 1, restartPolicy="Always") for number in range(4)),
        vgpu_pod("pair", 2, restartPolicy="Always"),
    )
    pods.wait_for("Running")
    before = {each.pod: each.device_ids for each in plugin.assignments()}
    records = {key: _life(plugin, key) for key in map(key_of, before.values())}
    turn_off(plugin)
    plugin.node.containerd.start()
    begun = plugin.process.log.read_text().count(WAITING)
    plugin.process.start()
    wait_until(lambda: plugin.process.log.read_text().count(WAITING) > begun, what="the plugin waits", seconds=30)
    plugin.node.kubelet.start()
    wait_until(lambda: _are_restarted(plugin, pods), what="every container was started again", seconds=180)
    assert not pods.failures(), pods.failures()
    assert {each.pod: each.device_ids for each in plugin.assignments()} == before
    assert {key: _life(plugin, key) for key in records} == records
    shown = plugin.node.plane.kubectl("exec", "-n", pods.namespace, "pair", "--", "ls", "/var/run/nvshare/mine")
    assert paths.ALLOCATION_FILE in shown
    return f"{len(before)} pods kept their slots"


def turn_off(plugin: NodePlugin) -> None:
    """End everything as a power switch does, except the node's first process and its network."""
    node = plugin.node
    for process in (plugin.process, node.kubelet.process, node.kubelet.proxy, node.containerd.process):
        process.kill()
    node.call("sh", "-c", "kill -9 -1 2>/dev/null; true")
    mounted = "grep -E ' /run/(containerd|netns)' /proc/mounts | cut -d' ' -f2 | sort -r"
    node.call("sh", "-c", f"for each in $({mounted}); do umount -l $each; done")
    node.call(
        "sh",
        "-c",
        "rm -rf /run/cdi /run/netns /run/nvshare-admin /run/containerd/io.* /run/containerd/s /run/containerd/*.sock*",
    )
    remove_dead_groups(f"guard-{node.plane.run.name}-{node.name}")


def remove_dead_groups(name: str) -> None:
    """Remove the control groups of pods that are gone; a kubelet would spend three seconds on each."""
    for root in Path("/sys/fs/cgroup").glob(f"**/{name}/kubepods"):
        for folder in sorted((path for path in root.glob("**/") if path != root), reverse=True):
            with contextlib.suppress(OSError):  # the classes of service have no processes, and stay or go
                folder.rmdir()


def _life(plugin: NodePlugin, key: str) -> Allocation:
    """Return an allocation's record without its binding's number, which grows when a spec is written again."""
    record = Path(plugin.node.path(f"{paths.NODE_ALLOCATIONS}/{key}/{paths.ALLOCATION_FILE}")).read_text()
    return replace(parse(record), binding=0)


def _are_restarted(plugin: NodePlugin, pods: Pods) -> bool:
    assert not pods.failures(), pods.failures()
    listed: list[Any] = plugin.core.list_namespaced_pod(pods.namespace).items
    states = [status for pod in listed for status in pod.status.container_statuses or ()]
    return len(states) == len(listed) and all(each.restart_count >= 1 and each.ready for each in states)


def gpu_lost(plugin: NodePlugin, pods: Pods) -> str:
    """Check a GPU that falls off the bus and returns: its ten slots go and come together, its pod stays."""
    slots = plugin.slots()
    pods.create(vgpu_pod("holder", 1))
    pods.wait_for("Running")
    plugin.simgpu("lost", "0")
    plugin.wait_for_slots(slots - 10)
    assert pods.phases() == {"holder": "Running"}
    plugin.simgpu("recovered", "0")
    plugin.wait_for_slots(slots)
    told = ("get", "events", "-n", "default", "-o", "jsonpath={.items[*].reason}")
    wait_until(
        lambda: {"GpuUnhealthy", "GpuRecovered"} <= set(plugin.node.plane.kubectl(*told).split()),
        what="events say that it went and came",
        seconds=15,
    )
    return "10 slots went and came"


def scheduler_stopped(plugin: NodePlugin, pods: Pods, count: int) -> str:
    """Check that an allocation takes no longer while the scheduler is stopped."""
    means = []
    with scheduler(plugin.node) as daemon:
        means.append(_mean_of_allocations(plugin, pods, "with", count))
        daemon.stop()
        means.append(_mean_of_allocations(plugin, pods, "without", count))
    with_it, without = means
    assert without < max(3 * with_it, 0.05), f"{with_it * 1000:.2f} ms with, {without * 1000:.2f} ms without"
    return f"{with_it * 1000:.2f} ms with a scheduler, {without * 1000:.2f} ms without"


def _mean_of_allocations(plugin: NodePlugin, pods: Pods, prefix: str, count: int) -> float:
    def totals() -> tuple[float, float]:
        name = 'nvshare_device_plugin_call_seconds_{}{{call="Allocate"}}'
        return plugin.metric(name.format("sum")), plugin.metric(name.format("count"))

    seconds, calls = totals()
    pods.create(*(vgpu_pod(f"{prefix}{number}", 1) for number in range(count)))
    pods.wait_for("Running")
    pods.delete_all()
    later_seconds, later_calls = totals()
    assert later_calls - calls == count
    return (later_seconds - seconds) / count

"""The full counts on a real node: spread, churn, and everything killed while pods come and go."""

import atexit
import functools
import secrets
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from testbed.cluster.kubernetes.node import Node, cluster
from tests.runners.drills import Drill, count
from tests.system.deviceplugin import another_plugin, containers, devices, scenarios
from tests.system.deviceplugin.on_node import NodePlugin, Pods, import_glibc_image, node_plugin

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
Scenario = Callable[[NodePlugin, Pods], str]


@functools.cache
def shared_node() -> Node:
    """Start one node for all drills of a run: a start takes a tenth of a drill's time."""
    stack = ExitStack()
    atexit.register(stack.close)
    node = stack.enter_context(cluster()).nodes[0]
    import_glibc_image(node, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dp-"))))
    return node


def on_node(scenario: Scenario, *, odd: str = "shuffled", labels: dict[str, str] | None = None) -> Callable[[], str]:
    """Run the scenario with a plugin that has just been started."""

    def run() -> str:
        node = shared_node()
        with (
            tempfile.TemporaryDirectory(prefix="dp-") as folder,
            node_plugin(node, Path(folder), odd=odd) as plugin,
            Pods(plugin, node.plane.create_namespace(f"t-{secrets.token_hex(4)}", labels=labels)) as pods,
        ):
            plugin.start()
            return scenario(plugin, pods)

    return run


def spread_evenly(plugin: NodePlugin, pods: Pods) -> str:
    found = scenarios.spread(plugin, pods, 40)
    assert found == [10, 10, 10, 10], found
    return str(found)


def spread_without_preference(plugin: NodePlugin, pods: Pods) -> str:
    """Create 20 pods, since 40 fill the node however they are placed; one random draw in 34 is even."""
    for _ in range(4):
        found = scenarios.spread(plugin, pods, 20)
        if found != [5, 5, 5, 5]:
            return f"{found} of 20 pods"
        pods.clear()
    raise AssertionError("the kubelet's own choice is as even: the spread proves nothing")


def spread_half(plugin: NodePlugin, pods: Pods) -> str:
    found = scenarios.spread(plugin, pods, 20)
    assert found == [5, 5, 5, 5], found
    return f"{found} of 20 pods"


def shot(make: Callable[[NodePlugin], Callable[[int], None]], full: int) -> Callable[[], str]:
    return on_node(lambda plugin, pods: scenarios.under_fire(plugin, pods, make(plugin), count(full)))


DRILLS = [
    Drill("40 pods of one vGPU over 4 GPUs: 10-10-10-10", on_node(spread_evenly)),
    Drill("half of them, with GetPreferredAllocation", on_node(spread_half)),
    Drill("half of them without it: not even", on_node(spread_without_preference, odd="without-preference")),
    Drill(
        "pods of 2 and 3 vGPUs: distinct GPUs",
        on_node(lambda plugin, pods: scenarios.distinct(plugin, pods, count(12))),
    ),
    Drill("200 pods made and deleted", on_node(lambda plugin, pods: scenarios.churn(plugin, pods, count(200)))),
    Drill("plugin's worker killed 10 times in pod churn", shot(scenarios.kill_worker, 10)),
    Drill("whole plugin killed 10 times in pod churn", shot(scenarios.kill_all, 10)),
    Drill("kubelet killed 5 times in pod churn", shot(scenarios.kill_kubelet, 5)),
    Drill("plugin and kubelet killed 5 times in pod churn", shot(scenarios.kill_both, 5)),
    Drill(
        "a Deployment of 2 vGPUs without room", on_node(lambda plugin, pods: scenarios.crowd(plugin, pods, count(60)))
    ),
    Drill("GPU lost and back", on_node(containers.gpu_lost)),
    Drill("a GPU that NVIDIA's plugin gives out too", on_node(another_plugin.beside_nvidia)),
    Drill(
        "scheduler stopped: allocation time",
        on_node(lambda it, pods: containers.scheduler_stopped(it, pods, count(20))),
    ),
    Drill("containers restarted keep their GPUs", on_node(containers.restarts)),
    Drill("init containers with slots", on_node(containers.init_containers)),
    Drill("reboot", on_node(containers.reboot)),
    Drill(
        "20 bursts of 20 pods, 50 CDI specs a second by another: right devices",
        on_node(lambda plugin, pods: devices.bursts(plugin, pods, count(20), 20)),
    ),
    Drill(
        "… on a quiet node: the wait of one start", on_node(lambda it, pods: devices.start_times(it, pods, count(40)))
    ),
    Drill("a restart on the same card, and one after a driver's upgrade", on_node(devices.restarts)),
    Drill("a spec that the runtime has not read yet is not started with", on_node(devices.guarded, odd="dying")),
    Drill(
        "restarts after an upgrade, beside a writer and a reader: none with the old driver",
        on_node(lambda plugin, pods: devices.upgrades(plugin, pods, count(20))),
    ),
    Drill("several cards, lent slots, the management spec", on_node(devices.sizes_and_sources)),
    Drill("specs malformed, of an unknown version, vanished", on_node(devices.spoilt_specs)),
    Drill(
        "plugin killed between Allocate and the first start",
        on_node(lambda plugin, pods: devices.killed_before_start(plugin, pods, count(10)), odd="dying"),
    ),
    Drill("a static pod", on_node(devices.static_pods)),
    Drill("LD_PRELOAD of the pod's own, emptied, both", on_node(containers.preload)),
    Drill("the hook under Pod Security restricted", on_node(containers.preload_under_restriction, labels=RESTRICTED)),
]

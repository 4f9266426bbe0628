"""Which devices containers get on a real node: in bursts beside another writer, through restarts, kills and old specs.

Each function raises where the behaviour is not what it should be, and returns its figures.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import yaml

from contract.allocation import key_of
from contract.words import names
from contract.words.node import DevicesFrom
from testbed.cluster.machine.processes import wait_until
from tests.system.deviceplugin.nvidia_specs import (
    LOOK,
    SPEC,
    NvidiaSpecs,
    Sight,
    other_reader,
    other_writer,
)
from tests.system.deviceplugin.on_node import NodePlugin, Pods, vgpu_container, vgpu_pod

STAY = "trap 'exit 0' TERM; sleep 100000 & wait"
LOOK_AND_STAY = f"{LOOK}\n{STAY}"
LATE = "unresolvable CDI devices"
STATIC_PODS = "/run/static-pods"
NOISE_A_SECOND = 50


def looking_pod(name: str, *vgpus: int, init: int = 0, **more: Any) -> dict[str, Any]:
    """Return a pod whose containers, one a number, tell what they see; `init` is the size of an init container."""
    pod = vgpu_pod(name, **more)
    pod["spec"]["containers"] = [vgpu_container(f"c{number}", size, LOOK_AND_STAY) for number, size in enumerate(vgpus)]
    if init:
        pod["spec"]["initContainers"] = [vgpu_container("first", init, LOOK)]
    return pod


def sight_of(plugin: NodePlugin, pods: Pods, name: str, container: str = "c0") -> Sight:
    """Return what a container has told; wait for its last line."""
    read = partial(plugin.core.read_namespaced_pod_log, name, pods.namespace, container=container)
    wait_until(lambda: "record " in read(), what=f"{name} has looked", seconds=60)
    return Sight.read(read())


def _check(specs: NvidiaSpecs, sights: Iterable[Sight], driver: str = "1") -> int:
    wrong = [complaint for sight in sights for complaint in specs.complaints_about(sight, driver)]
    assert not wrong, wrong
    return len(wrong)


def count_late(plugin: NodePlugin, pods: Pods) -> int:
    """Return how many containers did not find their spec at the first try."""
    events = plugin.core.list_namespaced_event(pods.namespace).items
    return len({(each.involved_object.name, each.message) for each in events if LATE in (each.message or "")})


def bursts(plugin: NodePlugin, pods: Pods, rounds: int, each: int) -> str:
    """Start so many pods at once beside another writer, again and again: none is wrong, few are late."""
    late, took = 0, []
    with NvidiaSpecs(plugin) as specs, other_writer(plugin.node.path("/run/cdi"), a_second=NOISE_A_SECOND):
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        for number in range(rounds):
            burst = [f"b{number}-{which}" for which in range(each)]
            pods.create(*(looking_pod(name, 1) for name in burst))
            pods.wait_for("Running", burst, seconds=180)
            _check(specs, (sight_of(plugin, pods, name) for name in burst))
            late += count_late(plugin, pods)
            took += waits(plugin, (sight_of(plugin, pods, name).record["key"] for name in burst))
            plugin.core.delete_collection_namespaced_event(pods.namespace)
            pods.clear()
    starts = rounds * each
    took.sort()
    assert late <= max(1, starts // 100), f"{late} of {starts} starts were late"
    middle = took[len(took) // 2] if took else 0
    return f"{starts} starts, 0 wrong, {late} late; waited for the runtime {middle} ms p50, {took[-1]} ms at most"


def waits(plugin: NodePlugin, keys: Iterable[str]) -> list[int]:
    """Return how long the last start of each allocation waited for the runtime, in ms, from the plugin's log."""
    lines = [line for line in plugin.process.log.read_text().splitlines() if " bound " in line]
    last = {line.split(" bound ")[1].split()[0]: int(line.rpartition(" after ")[2].split()[0]) for line in lines}
    return [last[key] for key in keys]


def count_bindings(plugin: NodePlugin, key: str) -> int:
    """Return how often the plugin has written this allocation's spec."""
    return plugin.process.log.read_text().count(f" bound {key} ")


def sizes_and_sources(plugin: NodePlugin, pods: Pods) -> str:
    """Check several cards, init containers that lend their slots, and the management spec."""
    with NvidiaSpecs(plugin) as specs:
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        pods.create(looking_pod("two", 2), looking_pod("lent", 1, init=1), looking_pod("grown", 2, 1, init=1))
        pods.wait_for("Running")
        places = [("two", "c0"), ("lent", "first"), ("lent", "c0"), ("grown", "first"), ("grown", "c0")]
        sights = {place: sight_of(plugin, pods, *place) for place in places}
        _check(specs, sights.values())
        lent = sights["lent", "first"].record, sights["lent", "c0"].record
        assert lent[0] == lent[1], "init and main share slots, so they share a binding"
        assert len(lent[0]["names"]) == 2
        assert lent[0]["pod"] == plugin.core.read_namespaced_pod("lent", pods.namespace).metadata.uid
        specs.path(SPEC).unlink()
        specs.write_management()
        specs.wait_for_label(DevicesFrom.MANAGEMENT_CDI)
        pods.create(looking_pod("managed", 1))
        pods.wait_for("Running")
        _check(specs, [sight_of(plugin, pods, "managed")], driver="managed")
    return f"{len(places) + 1} containers"


def restarts(plugin: NodePlugin, pods: Pods) -> str:
    """Check that a restart on the same card writes nothing, and that one after a driver's upgrade gets the new one."""
    with NvidiaSpecs(plugin) as specs:
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        pod = looking_pod("again", 1, restartPolicy="Always")
        pods.create(pod)
        pods.wait_for("Running")
        before = sight_of(plugin, pods, "again")
        key = before.record["key"]
        bindings = count_bindings(plugin, key)  # other pods had these slots before
        after = _sight_after_restart(plugin, pods, "again")
        assert (after, count_bindings(plugin, key)) == (before, bindings), "a restart on the same card writes nothing"
        specs.write(driver="2")
        upgraded = _sight_after_restart(plugin, pods, "again")
        _check(specs, [upgraded], driver="2")
        assert upgraded.record["binding"] == 2
        (waited,) = waits(plugin, [key])
        assert waited >= 200, "other readers have their time before an older spec's name is used again"
    return f"no wait on the same card; {waited} ms after an upgrade"


def upgrades(plugin: NodePlugin, pods: Pods, count: int) -> str:
    """Restart so many containers after a driver's upgrade, beside a writer and a reader: none has the old driver."""
    folder = plugin.node.path("/run/cdi")
    with NvidiaSpecs(plugin) as specs, other_writer(folder, a_second=NOISE_A_SECOND), other_reader(folder, a_second=10):
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        names_of_pods = [f"u{number}" for number in range(count)]
        pods.create(*(looking_pod(name, 1, restartPolicy="Always") for name in names_of_pods))
        pods.wait_for("Running", names_of_pods, seconds=180)
        before = {name: sight_of(plugin, pods, name) for name in names_of_pods}
        specs.write(driver="2")
        for name in names_of_pods:
            _stop(plugin, pods, name)
        for name in names_of_pods:
            log = partial(_last_log, plugin, pods, name)
            wait_until(partial(_says, log, '"binding": 2'), what=f"{name} was bound anew", seconds=180)
            sight = Sight.read(log())
            _check(specs, [sight], driver="2")
            assert sight.nodes == before[name].nodes, "the same card"
        failed = len([each for each in names_of_pods if _has_failed_to_mount(plugin, pods, each)])
    return f"{count} containers, 0 with the old driver; {failed} were refused by the guard first"


def _says(log: Callable[[], str], text: str) -> bool:
    return text in log()


def _has_failed_to_mount(plugin: NodePlugin, pods: Pods, name: str) -> bool:
    events = plugin.core.list_namespaced_event(pods.namespace).items
    return any(each.involved_object.name == name and "bound-" in (each.message or "") for each in events)


def guarded(plugin: NodePlugin, pods: Pods) -> str:
    """Check that a container whose devices have changed does not start with the old spec, whatever the runtime knows.

    The plugin is `serve_odd dying`: while a file is there, the new spec does not come.
    """
    keep = plugin.node.path("/run/keep-old-specs")
    with NvidiaSpecs(plugin) as specs:
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        pods.create(looking_pod("guarded", 1, restartPolicy="Always"))
        pods.wait_for("Running")
        sight_of(plugin, pods, "guarded")
        keep.touch()
        specs.write(driver="2")
        _stop(plugin, pods, "guarded")
        told = partial(_message_of, plugin, pods, "guarded")
        wait_until(lambda: "bound-" in told(), what="the start with the old spec fails", seconds=90)
        message = told()
        assert "no such file" in message, message
        keep.unlink()
        restarted = partial(_last_log, plugin, pods, "guarded")
        wait_until(
            lambda: "driver 2" in restarted() and "record" in restarted(),
            what="it starts with the new one",
            seconds=120,
        )
        _check(specs, [Sight.read(restarted())], driver="2")
    return "refused by runc, and right when the new spec was there"


def _message_of(plugin: NodePlugin, pods: Pods, name: str) -> str:
    (status,) = plugin.core.read_namespaced_pod(name, pods.namespace).status.container_statuses
    states = (status.state.waiting, status.state.terminated, status.last_state.terminated)
    return " ".join(each.message or "" for each in states if each is not None)


def _last_log(plugin: NodePlugin, pods: Pods, name: str) -> str:
    return str(plugin.node.plane.kubectl("logs", "-n", pods.namespace, name, check=False))


def _stop(plugin: NodePlugin, pods: Pods, name: str) -> None:
    plugin.node.plane.kubectl("exec", "-n", pods.namespace, name, "--", "sh", "-c", "kill -TERM 1", check=False)


def _sight_after_restart(plugin: NodePlugin, pods: Pods, name: str) -> Sight:
    def restarted() -> int:
        statuses = plugin.core.read_namespaced_pod(name, pods.namespace).status.container_statuses or ()
        return sum(each.restart_count for each in statuses if each.state.running)

    before = restarted()
    _stop(plugin, pods, name)
    wait_until(lambda: restarted() > before, what=f"{name} was started again", seconds=90)
    return sight_of(plugin, pods, name)


SPOILT = {
    "malformed": ("cdiVersion: 0.5.0\ncontainerEdits: [", "cannot be used"),
    "of an unknown version": ("cdiVersion: 9.9.9\nkind: nvidia.com/gpu\ndevices: []\n", "cdiVersion is '9.9.9'"),
    "vanished": (None, "is gone"),
}
"""How a spec may end: its text, and the words with which pods are refused."""


def spoilt_specs(plugin: NodePlugin, pods: Pods, how: Iterable[str] = tuple(SPOILT)) -> str:
    """Check that pods wait with a sentence while the node's spec cannot be used, and start when it can again."""
    with NvidiaSpecs(plugin) as specs:
        for number, each in enumerate(how):
            text, words = SPOILT[each]
            specs.write()
            specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
            if text is None:
                specs.path(SPEC).unlink()
            else:
                specs.put_text(SPEC, text)
            specs.wait_for_label(DevicesFrom.REFUSED)
            name = f"waiting{number}"
            pods.create(looking_pod(name, 1))
            wait_until(partial(_is_told, plugin, pods, name, words), what=f"{name} is told: {words}", seconds=60)
            assert pods.phases()[name] == "Pending"
            specs.write()
            pods.wait_for("Running", [name], seconds=90)
            _check(specs, [sight_of(plugin, pods, name)])
    return f"{number + 1} kinds of spoilt specs"


def _is_told(plugin: NodePlugin, pods: Pods, name: str, words: str) -> bool:
    events = plugin.core.list_namespaced_event(pods.namespace).items
    told = [each.message or "" for each in events if each.involved_object.name == name]
    return any("NoGpuDevices" in message and words in message for message in told)


def killed_before_start(plugin: NodePlugin, pods: Pods, rounds: int) -> str:
    """Check that a plugin which is killed between Allocate and the first start loses no name that it told.

    The plugin is `serve_odd dying`: it kills itself in the first PreStartContainer after the file is there.
    """
    trigger = plugin.node.path("/run/die-at-start")
    with NvidiaSpecs(plugin) as specs:
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        for number in range(rounds):
            trigger.touch()
            pods.create(looking_pod(f"d{number}", 1, init=1))
            wait_until(lambda: not trigger.exists(), what="the plugin has killed itself", seconds=60)
            pods.wait_for("Running", [f"d{number}"], seconds=120)
            _check(specs, [sight_of(plugin, pods, f"d{number}", each) for each in ("first", "c0")])
    return f"{rounds} pods"


def static_pods(plugin: NodePlugin, pods: Pods) -> str:
    """Check that a static pod gets its card, and that its record names it as the kubelet does."""
    node = plugin.node
    node.path(STATIC_PODS).mkdir(exist_ok=True)
    config = node.path("/run/kubelet.yaml")
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "staticPodPath": STATIC_PODS}))
    slots = plugin.slots()
    node.kubelet.process.restart()
    plugin.wait_until_whole(slots)
    with NvidiaSpecs(plugin) as specs:
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        pod = looking_pod("static", 1, init=1)
        pod["metadata"]["namespace"] = pods.namespace
        manifest = node.path(f"{STATIC_PODS}/static.yaml")
        manifest.write_text(yaml.safe_dump(pod))
        name = f"static-{node.name}"
        try:
            wait_until(lambda: pods.phases().get(name) == "Running", what="the static pod runs", seconds=120)
            sight = sight_of(plugin, pods, name)
            _check(specs, [sight, sight_of(plugin, pods, name, "first")])
            mirror = plugin.core.read_namespaced_pod(name, pods.namespace).metadata
            assert sight.record["pod"] == mirror.annotations[names.CONFIG_MIRROR] != mirror.uid
            assert key_of(sight.record["device_ids"]) == sight.record["key"]
        finally:
            manifest.unlink()
            wait_until(lambda: name not in pods.phases(), what="the static pod is gone", seconds=60)
    return "its UID is the configuration's hash"


def start_times(plugin: NodePlugin, pods: Pods, rounds: int) -> str:
    """Return how long a PreStart that has to write waits for the runtime, on a quiet node."""
    took = []
    with NvidiaSpecs(plugin) as specs:
        specs.write()
        specs.wait_for_label(DevicesFrom.NVIDIA_CDI)
        for number in range(rounds):
            pods.create(looking_pod(f"t{number}", 1))
            pods.wait_for("Running", [f"t{number}"])
            took += waits(plugin, [sight_of(plugin, pods, f"t{number}").record["key"]])
    took.sort()
    middle = took[len(took) // 2]
    assert middle <= 60, f"{middle} ms p50"
    return f"{middle} ms p50, {took[-1]} ms at most of {rounds}"

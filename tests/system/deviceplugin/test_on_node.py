"""The plugin on a real node: kubelet, containerd, scheduler and controllers are real, the GPUs are software."""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster.errors import MissingError
from testbed.cluster.kubernetes.node import Node, cluster
from tests.plugins.kubernetes import unavailable
from tests.system.deviceplugin import another_plugin, containers, scenarios
from tests.system.deviceplugin.doctor_on_node import Doctor, faults
from tests.system.deviceplugin.on_node import (
    NodePlugin,
    Pods,
    build_stand_in,
    import_glibc_image,
    node_plugin,
    scheduler,
)

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture(scope="module")
def own_node() -> Iterator[Node]:
    """Start a node that a test may damage, apart from the node that all rooms share."""
    try:
        with cluster() as made:
            yield made.nodes[0]
    except MissingError as error:
        unavailable(error)


@pytest.fixture(scope="module")
def plugin(own_node: Node) -> Iterator[NodePlugin]:
    with tempfile.TemporaryDirectory(prefix="dp-") as folder, node_plugin(own_node, Path(folder), odd="shuffled") as it:
        import_glibc_image(own_node, Path(folder))
        it.start()
        yield it


@pytest.fixture
def labels() -> dict[str, str]:
    """Return the labels of the test's namespace."""
    return {}


@pytest.fixture
def pods(plugin: NodePlugin, labels: dict[str, str]) -> Iterator[Pods]:
    with Pods(plugin, plugin.node.plane.create_namespace(f"t-{secrets.token_hex(4)}", labels=labels)) as pods:
        yield pods


def test_pods_are_spread_over_the_gpus(plugin: NodePlugin, pods: Pods) -> None:
    assert scenarios.spread(plugin, pods, 16) == [4, 4, 4, 4]


def test_several_vgpus_are_several_gpus(plugin: NodePlugin, pods: Pods) -> None:
    scenarios.distinct(plugin, pods, 2)


def test_no_slot_is_lost_when_pods_come_and_go(plugin: NodePlugin, pods: Pods) -> None:
    scenarios.churn(plugin, pods, 14)


@pytest.fixture
def doctor(plugin: NodePlugin) -> Iterator[Doctor]:
    """Return a doctor for the node, which has a driver's device nodes and CDI spec and a scheduler."""
    with tempfile.TemporaryDirectory(prefix="dr-") as folder, scheduler(plugin.node):
        build_stand_in(Path(folder))
        doctor = Doctor(plugin, Path(folder))
        doctor.write_spec([line.split()[1] for line in plugin.simgpu("devices").splitlines()])
        yield doctor


def test_the_doctor_finds_nothing_wrong_on_a_whole_node(doctor: Doctor) -> None:
    found = doctor.examine()

    assert faults(found) == {}
    assert len(found["gpu"]) == 4
    assert found["device-source"][0][1].startswith("GPU devices: nvidia-cdi.")


def test_the_doctor_names_each_thing_that_is_missing(doctor: Doctor) -> None:
    doctor.nodes.pop("nvidia2")
    doctor.spec.write_text("{")
    doctor.flags = ["--kubelet-folder=/nowhere", "--control-socket=/nowhere.sock"]
    found = doctor.examine()

    assert faults(found) == {
        "cdi-specs": {"WRONG"},
        "device-nodes": {"MISSING"},
        "device-source": {"WRONG"},
        "kubelet": {"MISSING"},
        "scheduler": {"MISSING"},
    }
    assert [text for verdict, text, _ in found["device-nodes"]] == ["/dev/nvidia2 is not on the node."]


def test_without_a_library_the_doctor_says_where_nvml_was_looked_for(doctor: Doctor) -> None:
    doctor.library = doctor.folder
    found = doctor.examine()

    assert faults(found) == {"nvml": {"MISSING"}}
    assert "searched below /host/run/nvidia/driver, /run/nvidia/driver, /host, /" in found["nvml"][0][1]


def test_a_killed_plugin_is_back(plugin: NodePlugin, pods: Pods) -> None:
    scenarios.under_fire(plugin, pods, scenarios.kill_worker(plugin), 3, most_seconds=30)


def test_a_killed_kubelet_knows_the_plugin_again(plugin: NodePlugin, pods: Pods) -> None:
    scenarios.under_fire(plugin, pods, scenarios.kill_kubelet(plugin), 1, most_seconds=30)


def test_a_deployment_that_finds_no_room_does_not_make_pods_without_end(plugin: NodePlugin, pods: Pods) -> None:
    scenarios.crowd(plugin, pods, 6)


def test_the_hook_is_loaded_whatever_a_pod_preloads(plugin: NodePlugin, pods: Pods) -> None:
    containers.preload(plugin, pods)


@pytest.mark.parametrize("labels", [{"pod-security.kubernetes.io/enforce": "restricted"}], ids=["restricted"])
def test_the_hook_is_loaded_under_pod_security(plugin: NodePlugin, pods: Pods) -> None:
    containers.preload_under_restriction(plugin, pods)


def test_init_containers_have_folders_of_their_own(plugin: NodePlugin, pods: Pods) -> None:
    containers.init_containers(plugin, pods)


def test_a_restarted_container_keeps_its_gpus(plugin: NodePlugin, pods: Pods) -> None:
    containers.restarts(plugin, pods)


def test_a_gpu_that_is_lost_and_found(plugin: NodePlugin, pods: Pods) -> None:
    containers.gpu_lost(plugin, pods)


def test_a_gpu_that_another_plugin_gives_out_is_not_shared(plugin: NodePlugin, pods: Pods) -> None:
    another_plugin.beside_nvidia(plugin, pods)


def test_allocations_do_not_wait_for_the_scheduler(plugin: NodePlugin, pods: Pods) -> None:
    containers.scheduler_stopped(plugin, pods, 4)


def test_a_reboot_loses_no_allocation(plugin: NodePlugin, pods: Pods) -> None:
    containers.reboot(plugin, pods)

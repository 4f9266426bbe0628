"""The devices that containers get on a real node, with NVIDIA's specs and nodes written by hand."""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster.errors import MissingError
from testbed.cluster.kubernetes.node import cluster
from tests.plugins.kubernetes import unavailable
from tests.system.deviceplugin import devices
from tests.system.deviceplugin.on_node import NodePlugin, Pods, node_plugin

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture(scope="module")
def plugin() -> Iterator[NodePlugin]:
    """Run the plugin on a node of its own, since the kubelet's configuration is changed."""
    try:
        with (
            cluster() as made,
            tempfile.TemporaryDirectory(prefix="dp-") as folder,
            node_plugin(made.nodes[0], Path(folder), odd="dying") as it,
        ):
            it.start()
            yield it
    except MissingError as error:
        unavailable(error)


@pytest.fixture
def pods(plugin: NodePlugin) -> Iterator[Pods]:
    with Pods(plugin, plugin.node.plane.create_namespace(f"t-{secrets.token_hex(4)}")) as pods:
        yield pods


def test_a_burst_beside_another_writer_gets_its_own_cards(plugin: NodePlugin, pods: Pods) -> None:
    devices.bursts(plugin, pods, 1, 12)


def test_containers_of_every_size_and_source_get_their_cards(plugin: NodePlugin, pods: Pods) -> None:
    devices.sizes_and_sources(plugin, pods)


def test_a_restart_waits_only_where_the_devices_have_changed(plugin: NodePlugin, pods: Pods) -> None:
    devices.restarts(plugin, pods)


def test_a_changed_container_never_starts_with_the_old_spec(plugin: NodePlugin, pods: Pods) -> None:
    devices.guarded(plugin, pods)


def test_pods_wait_while_the_nodes_spec_is_spoilt(plugin: NodePlugin, pods: Pods) -> None:
    devices.spoilt_specs(plugin, pods, ["malformed", "vanished"])


def test_a_plugin_killed_before_a_start_loses_no_name(plugin: NodePlugin, pods: Pods) -> None:
    devices.killed_before_start(plugin, pods, 1)


def test_a_static_pod_gets_its_card(plugin: NodePlugin, pods: Pods) -> None:
    devices.static_pods(plugin, pods)

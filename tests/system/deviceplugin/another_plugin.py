"""A plugin that gives out whole GPUs as NVIDIA's does, beside ours on one real node.

The stand-in is our own server with another resource's name and bare UUIDs as ids.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from contract.sharing.placement import Policy
from contract.words.node import DevicesFrom
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.kubelet.calls import Parts
from deviceplugin.kubelet.server import PluginServer
from deviceplugin.node.bindings import Bindings
from deviceplugin.node.files import NodeFiles
from deviceplugin.node.prestart import NodeCheck
from testbed.cluster.machine.processes import wait_until
from tests.system.deviceplugin.on_node import NodePlugin, Pods

RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True)
class WholeGpus(DeviceList):
    """Ids as NVIDIA's plugin has them."""

    uuids: tuple[str, ...] = ()

    def devices(self) -> Iterable[tuple[str, bool]]:
        return [(uuid, True) for uuid in self.uuids]


@contextmanager
def nvidia_stand_in(plugin: NodePlugin, *uuids: str) -> Iterator[None]:
    """Run a plugin that makes the kubelet give these GPUs out as `nvidia.com/gpu`."""
    folder = plugin.node.path("/var/lib/kubelet/device-plugins")
    files = NodeFiles.__new__(NodeFiles)  # nobody is allocated anything here
    parts = Parts(
        publisher=Publisher(WholeGpus(uuids=uuids)),
        files=files,
        tell=lambda _: None,
        bindings=Bindings(
            files=files,
            devices=lambda: GpuDevices(DevicesFrom.ENVIRONMENT, ""),
            ask_kubelet=lambda _: None,
            tell=lambda _: None,
        ),
        start_check=NodeCheck(files, lambda: False, lambda _: None),
        policy=Policy,
    )
    server = PluginServer(folder, parts)
    server.start()
    try:
        server.register(folder / "kubelet.sock", RESOURCE, seconds=10)
        yield
    finally:
        server.stop()


def beside_nvidia(plugin: NodePlugin, _pods: Pods) -> str:
    """Check that its GPU is taken back with an event, and returns when that plugin has ended for good."""
    slots = plugin.slots()
    uuid = plugin.simgpu("devices").split()[1]
    with nvidia_stand_in(plugin, uuid):
        plugin.wait_for_slots(slots - 10, seconds=60)
        told = ("get", "events", "-n", "default", "-o", "jsonpath={.items[*].reason}")
        wait_until(
            lambda: "ServedByAnother" in plugin.node.plane.kubectl(*told).split(), what="an event says why", seconds=15
        )
    plugin.wait_for_slots(slots, seconds=60)
    return f"{uuid} was noticed, refused, and shared again"

"""Fakes for the device plugin's protocols: GPUs without a library, a kubelet, a scheduler, a cluster, a recorder.

Owns no behaviour of ours.
"""

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc

from adapters.nvml import Xid
from contract.sharing.inventory import Gpu, Inventory
from contract.wire.load import GpuLoad, Load, encode_load
from deviceplugin.core.events import NodeEvent, PluginEvent
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.core.retention import Listed
from deviceplugin.errors import GpuGone, NvmlUnavailable
from deviceplugin.reporting.node_reports import ClusterUnavailable

T = TypeVar("T")


def make_gpu(number: int, **other: object) -> Gpu:
    """Make the GPU with UUID GPU-0000…number."""
    values: dict[str, object] = {
        "uuid": f"GPU-{number:08x}-0000-0000-0000-000000000000",
        "model": "Test GPU",
        "memory_bytes": 16 << 30,
        "compute": "9.0",
    }
    return Gpu(**(values | other))  # type: ignore[arg-type]


def make_inventory(gpus: int, slots: int = 10) -> Inventory:
    """Make an inventory of so many equal GPUs."""
    return take_stock([make_gpu(number) for number in range(gpus)], Rules(slots=slots))


class FakeLibrary:
    """GPUs that come, go and raise XIDs when told to."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = {gpu.uuid: gpu for gpu in gpus}
        self.answers = True
        self.is_outdated = False
        self.was_refused = threading.Event()
        self._xids: queue.Queue[Xid] = queue.Queue()

    def rescan(self) -> list[Gpu]:
        if not self.answers:
            self.was_refused.set()
            raise NvmlUnavailable("NVML does not answer")
        return list(self.gpus.values())

    def check(self, uuid: str) -> None:
        if uuid not in self.gpus:
            raise GpuGone(f"GPU {uuid} is not there")

    def wait_for_xid(self, seconds: float) -> Xid | None:
        try:
            return self._xids.get(timeout=seconds)
        except queue.Empty:
            return None

    def raise_xid(self, uuid: str | None, number: int) -> None:
        self._xids.put(Xid(uuid, number))

    def close(self) -> None:
        pass

    def tell(self) -> str:
        return "NVML is a fake."

    def needs_new_container(self) -> bool:
        return self.is_outdated


@dataclass
class FakeCluster:
    """An API server that counts, or does not answer."""

    answers: bool = True
    patches: list[tuple[dict[str, str | None], dict[str, str | None]]] = field(default_factory=list)
    events: list[NodeEvent] = field(default_factory=list)

    def patch_node(self, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None:
        if not self.answers:
            raise ClusterUnavailable("away")
        self.patches.append((dict(labels), dict(annotations)))

    def tell(self, event: NodeEvent) -> None:
        self.events.append(event)

    def tell_events(self) -> None:
        """Do nothing: no event waits to be sent."""

    def stop(self) -> None:
        """Do nothing: nothing runs."""

    def dropped_events(self) -> int:
        return 7

    def read_node_info(self) -> Mapping[str, str]:
        raise ClusterUnavailable("away")


class FakeKubelet:
    """pod-resources as a test wants it; a question in `silent` is not answered."""

    def __init__(self) -> None:
        self.listed = Listed()
        self.offered: Mapping[str, str] = {}
        self.silent: set[str] = set()

    def list_pods(self) -> Listed:
        if "List" in self.silent:
            raise grpc.RpcError("away")
        return self.listed

    def foreign(self) -> Mapping[str, str]:
        if "GetAllocatableResources" in self.silent:
            raise grpc.RpcError("away")
        return self.offered


class FakeScheduler:
    """Answers the load query on a control socket, until it ends."""

    def __init__(self, control_socket: Path, *drained: str) -> None:
        self.drained: frozenset[str] = frozenset(drained)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(control_socket))
        self._listener.listen()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    connection.recv(1024)
                    load = Load(tuple(GpuLoad(uuid=uuid, drained=True) for uuid in self.drained), 0)
                    connection.sendall(encode_load(load))

    def end(self) -> None:
        """End as a killed scheduler does: its socket stays behind."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


class PluginEvents:
    """Remember the events of a plugin, and let a test wait for one."""

    def __init__(self) -> None:
        self.all: list[PluginEvent] = []
        self._news = threading.Condition()

    def remember(self, event: PluginEvent) -> None:
        """Keep an event of the plugin; wake the tests that wait for it."""
        with self._news:
            self.all.append(event)
            self._news.notify_all()

    def wait_for(self, kind: type[T], is_it: Callable[[T], bool] = lambda _: True, *, count: int = 1) -> T:
        """Return event number `count` of this kind for which `is_it` holds; wait for it."""

        def found() -> list[T]:
            return [each for each in self.all if isinstance(each, kind) and is_it(each)]

        with self._news:
            assert self._news.wait_for(lambda: len(found()) >= count, 15), f"no {kind.__name__} among {self.all}"
            return found()[count - 1]

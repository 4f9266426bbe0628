"""NVIDIA's CDI specs and device nodes on a real node, for software GPUs; and what a container sees of them.

The nodes are real ones (195:n, as the driver's), made in the node's own folder.  The judge is a program in the
container: it lists its device nodes with their numbers, its environment, and the record of its allocation.
"""

import contextlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from contract.words import node as words
from contract.words import paths
from contract.words.node import DevicesFrom
from testbed.cluster.machine.processes import wait_until
from tests.system.deviceplugin.on_node import NodePlugin

DRIVER = "/run/nvidia/driver"
CONTROL = {"nvidiactl": (195, 255), "nvidia-uvm": (510, 0), "nvidia-uvm-tools": (510, 1)}
MIG_CAP = "nvidia-caps/nvidia-cap1"
SPEC = "/etc/cdi/nvidia.yaml"
MANAGEMENT_SPEC = "/run/cdi/management.nvidia.com-gpu.yaml"
LOOK = """
for node in /dev/nvidia*; do [ -c $node ] && echo node $node $(stat -c %t:%T $node); done
echo visible $NVIDIA_VISIBLE_DEVICES; echo driver $FAKE_DRIVER
echo record $(cat /var/run/nvshare/mine/allocation.json)
"""
"""The shell's part of a container's program."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Sight:
    """What a container sees."""

    nodes: Mapping[str, tuple[int, int]]
    visible: str
    driver: str
    record: Json

    @classmethod
    def read(cls, log: str) -> "Sight":
        lines = [line.split(" ", 1) for line in log.splitlines()]
        nodes = dict(rest.split() for word, rest in lines if word == "node")
        numbers = {name: _numbers(text) for name, text in nodes.items()}
        told = {word: rest for word, rest in lines if word != "node"}
        return cls(numbers, told["visible"], told["driver"], json.loads(told["record"]))


def _numbers(text: str) -> tuple[int, int]:
    major, minor = (int(part, 16) for part in text.split(":"))
    return major, minor


@dataclass
class NvidiaSpecs:
    """The specs of one node; as a context, gone at its end together with the plugin's memory of them."""

    plugin: NodePlugin
    cards: Mapping[str, int] = field(default_factory=dict)
    """UUIDs and the numbers of their device nodes, as NVML has them."""

    def __enter__(self) -> "NvidiaSpecs":
        uuids = [line.split()[1] for line in self.plugin.simgpu("devices").splitlines() if "GPU-" in line]
        self.cards = {uuid: number for number, uuid in enumerate(uuids)}
        for name, (major, minor) in {**CONTROL, MIG_CAP: (511, 1), **self._card_nodes()}.items():
            path = self.plugin.node.path(f"{DRIVER}/dev/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        return self

    def __exit__(self, *_: object) -> None:
        for path in (SPEC, MANAGEMENT_SPEC):
            self.path(path).unlink(missing_ok=True)
        (self.plugin.node.path(paths.NODE_ROOT) / "devices").unlink(missing_ok=True)

    def _card_nodes(self) -> dict[str, tuple[int, int]]:
        return {f"nvidia{number}": (195, number) for number in self.cards.values()}

    def path(self, inside: str) -> Path:
        return self.plugin.node.path(inside)

    def write(self, driver: str = "1") -> None:
        """Write the toolkit's spec, by rename as the toolkit does; `driver` is what a container sees of its version."""
        devices = [
            {"name": name, "containerEdits": {"deviceNodes": [_node(f"nvidia{number}")]}}
            for uuid, number in self.cards.items()
            for name in (str(number), uuid)
        ]
        devices += [{"name": "all", "containerEdits": {"deviceNodes": [_node(name) for name in self._card_nodes()]}}]
        common = {"env": [f"FAKE_DRIVER={driver}", "NVIDIA_VISIBLE_DEVICES=void"], "deviceNodes": _control_nodes()}
        self._put(SPEC, {"kind": "nvidia.com/gpu", "containerEdits": common, "devices": devices})

    def write_management(self) -> None:
        """Write the GPU Operator's spec: one device with everything."""
        names = [*self._card_nodes(), *CONTROL, MIG_CAP]
        every = {"name": "all", "containerEdits": {"deviceNodes": [_node(name) for name in names]}}
        common = {"env": ["FAKE_DRIVER=managed"]}
        spec = {"kind": "management.nvidia.com/gpu", "containerEdits": common, "devices": [every]}
        self._put(MANAGEMENT_SPEC, spec)

    def _put(self, inside: str, spec: Json) -> None:
        self.put_text(inside, yaml.safe_dump({"cdiVersion": "0.5.0", **spec}))

    def put_text(self, inside: str, text: str) -> None:
        """Put any text in a spec's place."""
        path = self.path(inside)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text)
        partial.rename(path)

    def wait_for_label(self, source: DevicesFrom) -> None:
        """Wait until the Node says where devices come from."""

        def is_told() -> bool:
            labels = self.plugin.core.read_node(self.plugin.node.name).metadata.labels
            return bool(labels.get(words.DEVICES) == source)

        wait_until(is_told, what=f"the Node's label says {source}", seconds=30, needs=(self.plugin.process,))

    def complaints_about(self, sight: Sight, driver: str) -> list[str]:
        """Return what is wrong in a container, in words; empty where it has exactly its cards and the control nodes."""
        cards = {f"/dev/nvidia{self.cards[uuid]}": (195, self.cards[uuid]) for uuid in sight.record["uuids"]}
        expected = {**cards, **{f"/dev/{name}": numbers for name, numbers in CONTROL.items()}}
        complaints = [] if sight.nodes == expected else [f"nodes {sight.nodes}, and should be {expected}"]
        complaints += [] if sight.visible == "void" else [f"NVIDIA_VISIBLE_DEVICES is {sight.visible}"]
        return complaints + ([] if sight.driver == driver else [f"driver {sight.driver}, and should be {driver}"])


def _node(name: str) -> Json:
    return {"path": f"/dev/{name}", "hostPath": f"{DRIVER}/dev/{name}"}


def _control_nodes() -> list[Json]:
    return [_node(name) for name in CONTROL]


@contextmanager
def other_reader(folder: Path, *, a_second: int) -> Iterator[None]:
    """Read every spec of the folder so many times a second, as another runtime on the node does."""
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(1 / a_second):
            for path in folder.glob("*.json"):
                with contextlib.suppress(OSError):
                    path.read_bytes()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def other_writer(folder: Path, *, a_second: int, specs: int = 80) -> Iterator[None]:
    """Rename specs of another maker into the folder, so many a second, as a DRA driver under load would."""
    stop = threading.Event()

    def write() -> None:
        number, began = 0, time.monotonic()
        while not stop.wait(max(0.0, began + number / a_second - time.monotonic())):
            name = f"other-{number % specs}"
            device = {"name": name, "containerEdits": {"env": [f"OTHER={number}"]}}
            spec = {"cdiVersion": "0.5.0", "kind": f"other.example/{name}", "devices": [device]}
            partial = folder / f".{name}.partial"
            partial.write_text(json.dumps(spec))
            partial.rename(folder / f"{name}.json")
            number += 1

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for path in folder.glob("other-*.json"):
            path.unlink()

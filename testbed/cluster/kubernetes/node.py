"""A cluster with real nodes on this machine: a control plane on a bridge, and each node in namespaces of its own.

The rule: only a node's cable and its control group are outside of its sandbox.  Two clusters, or two nodes of one, run
pods at the same time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import kubernetes.client

from testbed.cluster import pins
from testbed.cluster.cache import Say
from testbed.cluster.kubernetes import diagnosis
from testbed.cluster.kubernetes.containerd import Containerd
from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, quiet
from testbed.cluster.kubernetes.kubelet import Kubelet, Place
from testbed.cluster.machine import cgroups, leftovers, network, runs
from testbed.cluster.machine.processes import Process, wait_until
from testbed.cluster.machine.runs import Run
from testbed.cluster.machine.sandbox import Sandbox
from testbed.cluster.supplies import debian

_READY_SECONDS = 180.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The size and options of a cluster."""

    nodes: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that each node registers with."""
    options: Options = field(default_factory=Options)
    """Options of the API server; controllers and scheduler run in any case."""
    stays: bool = False
    """The cluster outlives this process, until `make cluster-down`."""


class Node:
    """One real node, and the cluster it belongs to."""

    def __init__(self, plane: ControlPlane, shape: Shape, number: int, *, say: Say) -> None:
        self.plane = plane
        self.name = f"node-{number}"
        run, addresses = plane.run, plane.addresses
        self.address = addresses.node(number)
        self.sandbox = Sandbox(run, self.name, stays=shape.stays)
        network.connect_node(run, addresses, number, self.sandbox.init_pid, nodes=shape.nodes)
        network.write_cni(self.sandbox.path("/etc/cni/net.d"), addresses.pods(number))
        self.containerd = Containerd(self.sandbox, node=self.name, say=say)
        place = Place(
            name=self.name,
            address=self.address,
            pods=addresses.all_pods,
            cgroup_root=cgroups.make(run, self.name),
            labels=shape.labels,
        )
        self.kubelet = Kubelet(self.sandbox, plane, place)

    def start(self) -> None:
        self.containerd.start()
        self.kubelet.start()

    @property
    def processes(self) -> tuple[Process, ...]:
        return (self.containerd.process, self.kubelet.process, self.kubelet.proxy)

    def path(self, inside: str) -> Path:
        """Return where a path of the node (/var/lib/kubelet, /var/lib/nvshare, /run, …) lies on this machine."""
        return self.sandbox.path(inside)

    def is_ready(self) -> bool:
        core = self.plane.core
        try:
            conditions = core.read_node(self.name).status.conditions or ()
        except kubernetes.client.ApiException:
            return False
        return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)

    def wait_ready(self) -> None:
        what = f"{self.name} is Ready"
        wait_until(self.is_ready, what=what, seconds=_READY_SECONDS, needs=self.processes)

    def call(self, *command: str, stdin: str | None = None) -> str:
        """Run a command on the node and return its output."""
        return self.sandbox.call(*command, stdin=stdin)


@dataclass(frozen=True, slots=True)
class Cluster:
    plane: ControlPlane
    nodes: Sequence[Node]

    def register_node(self, name: str, *, capacity: Mapping[str, str], labels: Mapping[str, str] | None = None) -> None:
        """Register a node for the scheduler only: it has no kubelet, so its pods never start."""
        register_node(self.plane, name, capacity=capacity, labels=labels)


def register_node(
    plane: ControlPlane, name: str, *, capacity: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> None:
    """Register a Ready node without a kubelet.

    Where the controllers run, they would miss its lease after 50 s.
    """
    core = plane.core
    about = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    core.create_node({"metadata": about})
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110", **capacity}
    ready = {"type": "Ready", "status": "True", "reason": "Registered", "message": "for the scheduler only"}
    status: dict[str, Any] = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    core.patch_node_status(name, {"status": status})
    # the taint `not-ready` is set on every new node by an admission plugin, and removed by a controller
    core.patch_node(name, {"spec": {"taints": []}})


def check_machine(*, say: Say) -> None:
    """Raise MissingError where this machine lacks something that a node needs."""
    debian.need_root("a node")
    debian.ensure(pins.NODE_PACKAGES, say=say)


def start_cluster(run: Run, shape: Shape, *, say: Say = quiet) -> Cluster:
    """Start everything at once, then wait: the kubelet waits for the API server by itself."""
    addresses = network.lay_bridge(run)
    options = replace(shape.options, controllers=True, scheduler=True)
    plane = ControlPlane(run, options, addresses=addresses, stays=shape.stays, say=say)
    plane.start()
    nodes = [Node(plane, shape, number, say=say) for number in range(shape.nodes)]
    for node in nodes:
        say(f"starting containerd {pins.CONTAINERD} and the kubelet of {node.name} at {node.address}")
        node.start()
    for node in nodes:
        node.wait_ready()
        say(f"{node.name} is Ready")
    return Cluster(plane, nodes)


@contextmanager
def cluster(shape: Shape | None = None, *, say: Say = quiet) -> Iterator[Cluster]:
    """Start a cluster of its own: `with cluster(Shape(nodes=2)) as two: …`."""
    check_machine(say=say)
    leftovers.remove_abandoned(say=say)
    run = runs.begin()
    made = None
    try:
        made = start_cluster(run, shape or Shape(), say=say)
        yield made
    except Exception as error:
        # ask before the cluster ends
        for title, text in diagnosis.sections(made):
            error.add_note(f"{title}\n{text}")
        raise
    finally:
        leftovers.remove(run)

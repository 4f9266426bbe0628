"""A node with everything installed as an operator does it: `kubectl apply -k`, the real image, four software GPUs.

Tests, drills and the cluster demo use it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from contract.words import names
from testbed.cluster.cache import Say
from testbed.cluster.kubernetes.control_plane import Options
from testbed.cluster.kubernetes.node import Node, Shape, cluster
from testbed.cluster.machine.processes import wait_until
from testbed.cluster.supplies import image
from testbed.cluster.supplies.image import Target
from testbed.gpu_record import Record

MANIFESTS = Path(__file__).parents[2] / "manifests"
SYSTEM = names.SYSTEM_NAMESPACE
IMAGE = Target.SIMGPU.value
GPUS = 4
COMPONENTS = ("deployment/nvshare-webhook", "daemonset/nvshare-device-plugin", "daemonset/nvshare-schedulerd")
Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a pod of a test asks for."""

    gpus: int | str = 1
    command: Sequence[str] = ("burn", "--kernel-ms", "5", "--seconds", "100000", "--quiet")
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the container."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the pod."""


def pod(name: str, wish: Wish | None = None) -> Object:
    """Build a pod on the software GPU; the record knows it by its name."""
    wish = wish or Wish()
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": list(wish.command),
        "env": [{"name": key, "value": value} for key, value in {"SIMGPU_LABEL": name, **wish.env}.items()],
        **wish.container,
    }
    if wish.gpus:
        container["resources"] = {"limits": {names.RESOURCE: wish.gpus}}
    metadata = {"name": name, "annotations": dict(wish.annotations)}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **wish.spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class House:
    """A node with nvshare-guard on it, or with an empty place for it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.plane = node.plane

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return self.plane.kubectl(*arguments, stdin=stdin, check=check)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.kubectl(*arguments, "-o", "json"))

    # ------------------------------------------------------------------------------------------ installing
    def apply(self, overlay: str = "simgpu") -> None:
        folder = MANIFESTS / "base" if overlay == "base" else MANIFESTS / "overlays" / overlay
        self.kubectl("apply", "-k", str(folder))

    def wait_ready(self, seconds: float = 120) -> None:
        """Wait until every component is ready and the node offers its slots."""
        for component in COMPONENTS:
            self.kubectl("-n", SYSTEM, "rollout", "status", component, f"--timeout={seconds:.0f}s")
        wait_until(
            lambda: self.slots() == GPUS * names.SLOTS_PER_GPU, what="the node offers its slots", seconds=seconds
        )

    def wait_until_alone(self, seconds: float = 90) -> None:
        """Wait until the former components are gone: for some ten seconds a former webhook still answers."""
        wait_until(lambda: not self._going(), what="the former components are gone", seconds=seconds)

    def _going(self) -> list[Object]:
        pods: list[Object] = self.json("-n", SYSTEM, "get", "pods")["items"]
        return [item for item in pods if "deletionTimestamp" in item["metadata"]]

    def slots(self) -> int:
        allocatable = self.json("get", "node", self.node.name)["status"]["allocatable"]
        return int(allocatable.get(names.RESOURCE, 0))

    # ------------------------------------------------------------------------------------------ pods
    def create(self, namespace: str, wanted: Object) -> str:
        """Create an object; return what kubectl printed, whether it was refused or not."""
        return self.kubectl("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(wanted), check=False)

    def start(self, namespace: str, *wanted: Object) -> None:
        """Create pods and wait until they run, or are through already."""
        for each in wanted:
            self.kubectl("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(each))
        for each in wanted:
            self.wait_phase(namespace, each["metadata"]["name"], ("Running", "Succeeded"))

    def wait_phase(self, namespace: str, name: str, phases: Sequence[str], seconds: float = 90) -> None:
        what = f"pod {name} is {' or '.join(phases)}"
        wait_until(lambda: self.phase(namespace, name) in phases, what=what, seconds=seconds)

    def phase(self, namespace: str, name: str) -> str:
        return self.kubectl("get", "pod", name, "-n", namespace, "-o", "jsonpath={.status.phase}", check=False)

    def execute(self, namespace: str, name: str, *command: str, check: bool = True) -> str:
        return self.kubectl("exec", "-n", namespace, name, "--", *command, check=check)

    def uuids(self, namespace: str, name: str) -> list[str]:
        """Return the GPUs that a container was given."""
        return self.execute(namespace, name, "sh", "-c", f"echo ${names.ENV_VISIBLE_DEVICES}").strip().split(",")

    def record(self) -> Record:
        """Open the software GPU's own record of what executed when."""
        return Record(self.node.path("/run/simgpu/gpus"))

    def schedulerd(self, *command: str) -> str:
        return self.kubectl("-n", SYSTEM, "exec", "ds/nvshare-schedulerd", "--", *command)

    def delete_pods(self, namespace: str) -> None:
        self.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force", check=False)

    # ------------------------------------------------------------------------------------------ everything there is
    def listing(self) -> set[str]:
        """List every object by kind, namespace and name, except for kinds that come and go by themselves."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        passing = {"events", "events.events.k8s.io", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io"}
        wanted = ",".join(sorted(kind for kind in kinds if kind not in passing and "metrics" not in kind))
        said = self.kubectl("get", wanted, "-A", "--no-headers", "--ignore-not-found", "-o", "name")
        return set(said.split())


@contextmanager
def empty_house(say: Say = print, *, options: Options | None = None) -> Iterator[House]:
    """Start a fresh node with the image loaded and nothing applied."""
    archive = image.archive(Target.SIMGPU, say=say)
    with cluster(Shape(options=options or Options()), say=say) as made:
        made.nodes[0].containerd.import_image(archive)
        yield House(made.nodes[0])


@contextmanager
def installed_house(say: Say = print) -> Iterator[House]:
    """Start a node with everything installed and ready."""
    with empty_house(say) as house:
        house.apply()
        house.wait_ready()
        yield house

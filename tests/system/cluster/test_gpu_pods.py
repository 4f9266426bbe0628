"""Two real nodes at once, from the image to the pod: device plugin, CDI, a pod that computes, what kubectl shows."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

import pytest
import yaml

from contract.words import names
from testbed.cluster.errors import MissingError
from testbed.cluster.kubernetes import gpus
from testbed.cluster.kubernetes.control_plane import ControlPlane
from testbed.cluster.kubernetes.node import Cluster, Node, Shape, cluster
from testbed.cluster.machine.processes import wait_until
from testbed.cluster.supplies import image
from testbed.cluster.supplies.image import Target
from tests.plugins.kubernetes import unavailable

pytestmark = [pytest.mark.node, pytest.mark.slow]
GPUS = "2xT4-16GB"
COMMANDS = ("nvshare-webhook", "nvshare-device-plugin", "nvshare-schedulerd", "nvsharectl")
MOST_BYTES = 300_000_000
"""What testbed/cluster/README.md says of the image's size, with room for a dependency's next release."""
SAID = re.compile(r"(GPU-[0-9a-f-]{36}) is one of (\d+); the kernel took (\d+\.\d) ms\n")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    """Start two nodes with two GPUs each and the project's image."""
    try:
        archive = image.archive(Target.SIMGPU, say=print)
        with cluster(Shape(nodes=2), say=print) as made:
            for node in made.nodes:
                node.containerd.import_image(archive)
            made.plane.apply(gpus.device_plugin(devices=GPUS))
            offered = partial(all_offer, made.nodes, "20")
            wait_until(offered, what="each node offers 20 slots", seconds=120)
            yield made
    except MissingError as error:
        unavailable(error)


def all_offer(nodes: Sequence[Node], expected: str) -> bool:
    return {slots(node) for node in nodes} == {expected}


def slots(node: Node) -> str:
    allocatable = node.plane.core.read_node(node.name).status.allocatable
    return str(allocatable.get(names.RESOURCE, "0"))


def has_reported(plane: ControlPlane, pod: str) -> bool:
    return SAID.search(plane.kubectl("logs", pod)) is not None


def uuids_of(node: Node) -> set[str]:
    """Return the UUIDs that the software GPU's tool prints on the node, run in the device plugin's pod."""
    pod = node.plane.kubectl(
        "get", "pod", "-l", "app=device-plugin", "-o", "name", f"--field-selector=spec.nodeName={node.name}"
    )
    return set(re.findall(r"GPU-[0-9a-f-]{36}", node.plane.kubectl("exec", pod.strip(), "--", "simgpu", "devices")))


def test_pods_on_both_nodes_compute_at_once_each_on_a_gpu_of_its_node(two_nodes: Cluster) -> None:
    plane = two_nodes.plane
    pods = {f"on-{node.name}": node for node in two_nodes.nodes}
    plane.apply(*(gpus.computing_pod(name, node=node.name) for name, node in pods.items()))
    plane.kubectl("wait", "--for=condition=Ready", "--timeout=180s", *(f"pod/{name}" for name in pods))

    for name, node in pods.items():
        reports = partial(has_reported, plane, name)
        wait_until(reports, what=f"{name} reports", seconds=120)
        from_log = SAID.search(plane.kubectl("logs", name))
        from_exec = SAID.search(plane.kubectl("exec", name, "--", "python", "-c", gpus.REPORT))
        assert from_log is not None
        assert from_exec is not None
        assert from_log[1] == from_exec[1]
        assert from_log[1] in uuids_of(node)
        assert from_log[2] == "1"  # it was given one GPU, and sees one
        assert 5.0 <= float(from_log[3]) < 100
    assert uuids_of(two_nodes.nodes[0]).isdisjoint(uuids_of(two_nodes.nodes[1]))


def test_the_nodes_folders_are_their_own(two_nodes: Cluster) -> None:
    first, second = two_nodes.nodes
    for folder in ("/var/lib/kubelet/device-plugins", "/var/run/cdi", "/var/lib/nvshare/allocations"):
        assert set(first.call("ls", folder).split()) - {"kubelet.sock", "kubelet_internal_checkpoint"}
        assert sorted(path.name for path in first.path(folder.replace("/var/run", "/run")).iterdir()) == sorted(
            first.call("ls", folder).split()
        )
    specs = [yaml.safe_load_all(node.call("sh", "-c", "cat /var/run/cdi/*")) for node in (first, second)]
    assert specs[0] != specs[1]


LOOKS = f"""id -u; id -g
for name in {" ".join(COMMANDS)}; do command -v $name && $name --help > /tmp/said || exit 1; done
ls /usr/lib/nvshare; ! command -v gcc make pip"""


def test_the_image_is_small_has_the_four_commands_and_runs_as_nobody(two_nodes: Cluster) -> None:
    pod = gpus.computing_pod("looks", gpus=0)
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", LOOKS]
    two_nodes.plane.apply(pod)
    two_nodes.plane.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s", "pod/looks")
    said = two_nodes.plane.kubectl("logs", "looks").splitlines()

    assert said[:2] == ["65532", "65532"]
    assert said[2:6] == [f"/opt/nvshare/bin/{name}" for name in COMMANDS]
    assert "libnvshare.so" in said[6:]
    assert image.archive(Target.RUN, say=print).stat().st_size < MOST_BYTES


def test_a_node_without_a_kubelet_takes_pods_by_its_numbers_alone(two_nodes: Cluster) -> None:
    two_nodes.register_node("large", capacity={names.RESOURCE: "80"}, labels={"size": "large"})
    pod = gpus.computing_pod("on-large", gpus=40)
    two_nodes.plane.apply(pod)

    two_nodes.plane.kubectl("wait", "--for=condition=PodScheduled", "pod/on-large", "--timeout=180s")
    core = two_nodes.plane.core
    assert core.read_namespaced_pod("on-large", "default").spec.node_name == "large"

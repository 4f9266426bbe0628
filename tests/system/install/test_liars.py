"""A pod that lies to the scheduler about its memory, on its own socket: pods of other namespaces notice nothing."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.words import names, paths
from testbed.cluster.installed import GPUS, House, Wish, pod
from testbed.cluster.machine.processes import wait_until
from tests.system.install.bypasses import OPTED_IN

pytestmark = [pytest.mark.node, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "programs" / "liar.py"
GIB = 1 << 30
USING_40_GIB = f"using gpu={{gpu}} pageable=0 unpageable={40 * GIB}"
USING_39_GIB = f"using gpu={{gpu}} pageable=0 unpageable={39 * GIB}"
WANT = "want gpus={gpu}"
RUNS = 5
LARGE = "burn --plain-mb 30000 --kernel-ms 5 --count 10"
"""It fits on a card of 40 GiB beside a container with a cap of 2 GiB."""
SMALL = ("burn", "--managed-mb", "1000", "--kernel-ms", "5", "--seconds", "100000", "--quiet")
Room = Callable[..., str]


def lie(house: House, namespace: str, *lines: str, connections: int = 1) -> None:
    """Start a pod on every GPU, with a cap of 2 GiB, that lies; return when it was heard."""
    program = ("/opt/nvshare/bin/python3", "-c", PROGRAM.read_text(), paths.CONTAINER_OWN_SOCKET, str(connections))
    annotations = {names.MULTI_GPU: "per-device", names.MEMORY: "2Gi"}
    house.start(namespace, pod("liar", Wish(gpus=GPUS, command=(*program, *lines), annotations=annotations)))
    wait_until(
        lambda: "all is said" in house.kubectl("logs", "-n", namespace, "liar"), what="the liar was heard", seconds=60
    )


def outcomes(house: House, namespace: str, name: str) -> list[tuple[int, int]]:
    """Wait for a pod that runs `burn`; return launches and error of each run."""
    house.wait_phase(namespace, name, ("Succeeded", "Failed"), seconds=120)
    said = house.kubectl("logs", "-n", namespace, name)
    return [(int(runs), int(error)) for runs, error in re.findall(r"launched=(\d+) .*error=(\d+)", said)]


def reasons(house: House, namespace: str, name: str) -> set[str]:
    """Return the reasons of a pod's events."""
    events = house.json("get", "events", "-n", namespace, f"--field-selector=involvedObject.name={name}")["items"]
    return {event["reason"] for event in events}


@pytest.mark.parametrize(
    ("lines", "connections", "is_told"),
    [
        pytest.param((USING_40_GIB,), 1, True, id="it says that it has the whole card"),
        pytest.param((USING_39_GIB, WANT), 1, True, id="it says that it has nearly the whole card, and wants a turn"),
        pytest.param((), 250, False, id="it says hello for 250 processes that do not exist"),
    ],
)
def test_a_plain_pod_of_another_namespace_gets_all_the_memory_that_it_asks_for(
    house: House, room: Room, lines: tuple[str, ...], connections: int, is_told: bool
) -> None:
    theirs, ours = room(labels=OPTED_IN), room(labels=OPTED_IN)
    lie(house, theirs, *lines, connections=connections)
    command = ("sh", "-c", f"for run in {' '.join(map(str, range(RUNS)))}; do {LARGE}; done")
    house.start(ours, pod("honest", Wish(command=command, annotations={names.ALLOCATION: "plain"})))

    assert outcomes(house, ours, "honest") == [(10, 0)] * RUNS
    if is_told:
        wait_until(lambda: "GpuMemoryAboveCap" in reasons(house, theirs, "liar"), what="the lie is told of", seconds=30)
    assert house.phase(theirs, "liar") == "Running"


def holders(house: House, name: str) -> set[str]:
    """Return the pods that hold a GPU that the pod of this name holds now."""
    containers = json.loads(house.schedulerd("nvsharectl", "status", "--json"))["containers"]
    held = {one.get("pod"): {place["gpu"] for place in one["gpus"] if place["state"] == "holds"} for one in containers}
    return {pod for pod, gpus in held.items() if gpus & held.get(name, set())}


def test_a_pod_holds_its_gpu_side_by_side_with_a_liar_that_wants_it(house: House, room: Room) -> None:
    theirs, ours = room(labels=OPTED_IN), room(labels=OPTED_IN)
    lie(house, theirs, USING_39_GIB, WANT)
    house.start(ours, pod("honest", Wish(command=SMALL)))

    wait_until(lambda: holders(house, "honest") == {"honest", "liar"}, what="both hold the GPU at once", seconds=30)

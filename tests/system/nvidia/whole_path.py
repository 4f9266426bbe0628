"""The whole path on one kind of node: our daemons start, a pod gets its card and takes a turn, tricks do not work.

Each step takes the bed and a namespace, raises where something is wrong, and returns its figures.  `make drills` runs
all of them on every kind, pytest on two kinds.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from contract.words import names, paths
from testbed.cluster.errors import BrokenError
from testbed.cluster.installed import GPUS, SYSTEM, Object, Wish, pod
from testbed.cluster.machine.processes import wait_until
from testbed.nvidia import cuda_image, driver, toolkit
from testbed.nvidia.bed import Bed
from testbed.nvidia.kinds import Outcome
from tests.system.nvidia import pods, sights
from tests.system.nvidia.noise import noise

OPTED_IN = {names.INJECTION_LABEL: "enabled"}
BURST = 20
MAX_LATE = 0.01
_START_SECONDS = 180.0
"""A busy machine needs a minute; a node on which NVML is not found never becomes ready."""
_WORK = ("burn", "--kernel-ms", "5", "--seconds", "100000", "--quiet")
_LOOK_AND_WORK = ("sh", "-c", 'python -c "$LOOK" && burn --kernel-ms 1 --count 2 --quiet')
SLOTS = GPUS * names.SLOTS_PER_GPU
Step = Callable[[Bed, str], str]


def cuda_pod(
    name: str,
    *,
    image: str = cuda_image.NAME,
    annotations: Mapping[str, str] | None = None,
    work: Sequence[str] = _WORK,
) -> Object:
    """Build a pod of an image like NVIDIA's, which says what it sees and computes until it is deleted."""
    command = ("sh", "-c", f'python -c "$LOOK"; exec {" ".join(work)}')
    about = {"image": image}
    return pod(
        name, Wish(gpus="1", command=command, container=about, annotations=annotations or {}, env={"LOOK": sights.LOOK})
    )


def looking_pod(name: str) -> Object:
    """Build a pod that says what it sees, computes for a moment and ends."""
    return pod(
        name, Wish(gpus="1", command=_LOOK_AND_WORK, container={"image": cuda_image.NAME}, env={"LOOK": sights.LOOK})
    )


@contextmanager
def namespace(bed: Bed) -> Iterator[str]:
    """Make a namespace that opted in; its pods are gone afterwards."""
    made = bed.house.plane.create_namespace(f"n-{secrets.token_hex(4)}", labels=OPTED_IN)
    try:
        yield made
    finally:
        pods.remove_all(bed, made)


# ---------------------------------------------------------------------------------------------- our daemons
def daemons_start(bed: Bed, _: str) -> str:
    """Wait until every component is ready and the node offers all slots."""
    try:
        wait_until(bed.is_ready, what="webhook, device plugin and scheduler are ready", seconds=_START_SECONDS)
        wait_until(lambda: bed.slots() == SLOTS, what=f"{SLOTS} slots are offered", seconds=_START_SECONDS)
    except BrokenError as error:
        raise AssertionError(f"{error.cause.splitlines()[0]}; the plugin says: {last_words(bed)}") from None
    return f"{SLOTS} slots"


def last_words(bed: Bed) -> str:
    """Return the device plugin's last line that warns."""
    lines = bed.house.kubectl("-n", SYSTEM, "logs", "ds/nvshare-device-plugin", "--tail=50", check=False).splitlines()
    warning = [line for line in lines if re.search("WARNING|ERROR|warning|error", line)]
    return (warning or lines or [""])[-1][-300:]


# ---------------------------------------------------------------------------------------------- one pod
def gets_its_card(bed: Bed, team: str) -> str:
    """Start one pod: it has its card's nodes and the node's libraries, the hook is loaded, and it takes a turn."""
    house = bed.house
    pods.start(bed, team, cuda_pod("one"))
    sight = pods.look(bed, team, "one")
    assert not (wrong := sights.complaints(sight, bed.uuids)), "; ".join(wrong)
    maps = house.execute(team, "one", "cat", "/proc/1/maps")
    assert paths.CONTAINER_HOOK in maps, "the hook is not loaded"
    assert f"libcuda.so.{driver.VERSION}" in maps, "libcuda is not the node's"
    wait_until(lambda: computes(bed, "one"), what="the card executes the pod's kernels", seconds=20)
    wait_until(lambda: f"{team}/one" in house.schedulerd("nvsharectl", "status"), what="status names it", seconds=20)
    return f"{' '.join(sorted(sight.cards))} + {len(sight.nodes) - 1} control, variable {sight.variable}"


def computes(bed: Bed, label: str) -> bool:
    record = bed.house.record()
    return any(one.owner.label == label for card in record.cards for one in record.intervals(card.index))


def waits_for_devices(bed: Bed, team: str) -> str:
    """Create a pod where nothing on the node brings devices: it waits with a sentence, and never starts without any."""
    assert not (refused := pods.create(bed, team, cuda_pod("one"))), refused
    wait_until(partial(pods.is_warned, bed, team, "one"), what="the pod waits with a sentence", seconds=60)
    assert pods.phase(bed, team, "one") == "Pending", f"it is {pods.phase(bed, team, 'one')}"
    assert "nobody reads the environment" in health(bed), health(bed)
    return "waits, as must be"


# ---------------------------------------------------------------------------------------------- doctor
def doctor_agrees(bed: Bed, _: str) -> str:
    """Run doctor as a Job: it finds a good node good, and says what a bad one lacks."""
    assert bed.kind is not None
    report = bed.examine()
    faults = [line for line in report.splitlines() if line.startswith(("WRONG", "MISSING"))]
    if bed.kind.outcome is Outcome.RUNS:
        assert not faults, f"doctor finds fault with a good node: {faults[0]}"
        return "doctor finds no fault"
    assert any("device-source" in line or "runtime" in line for line in faults), f"doctor finds nothing: {report}"
    return f"doctor: {faults[0][:120]}"


# ---------------------------------------------------------------------------------------------- specs that go away
def specs_vanish(bed: Bed, team: str) -> str:
    """Take the node's specs away and break them: new pods wait, the plugin says why, and nothing wrong gets in."""
    assert bed.kind is not None
    said: list[str] = []
    path = bed.house.node.path(toolkit.spec_file(bed.kind, bed.kind.specs[0]))
    content = path.read_text()
    for number, broken in enumerate((None, "kind: nvidia.com/gpu\ndevices: [")):
        path.unlink() if broken is None else path.write_text(broken)
        wait_until(lambda: "refused" in health(bed), what="the plugin refuses the node's specs", seconds=30)
        said.append(health(bed))
        wanted = cuda_pod(f"waits{number}")
        assert not (refused := pods.create(bed, team, wanted)), refused
        name = wanted["metadata"]["name"]
        wait_until(partial(pods.is_warned, bed, team, name), what=f"{name} waits with a sentence", seconds=60)
        assert pods.phase(bed, team, name) == "Pending", f"{name} is {pods.phase(bed, team, name)}"
        _replace(path, content)
        pods.wait_running(bed, team, name)
        wrong = sights.complaints(pods.look(bed, team, name), bed.uuids)
        assert not wrong, "; ".join(wrong)
    return f"twice: refused, pods wait, and start when it is back ({said[0][:60]}…)"


def _replace(path: Path, content: str) -> None:
    partial_file = path.with_name(f".{path.name}.partial")
    partial_file.write_text(content)
    partial_file.rename(path)


def health(bed: Bed) -> str:
    """Return what the device plugin's probe says."""
    command = ("exec", "ds/nvshare-device-plugin", "--", "nvshare-device-plugin", "healthz")
    return bed.house.kubectl("-n", SYSTEM, *command, check=False).strip()


# ---------------------------------------------------------------------------------------------- tricks
def tricks_fail(bed: Bed, team: str) -> str:
    """Ask for other cards in every way that a user has: the webhook refuses, or the pod sees its own card alone."""
    for value in ("all", bed.uuids[0], "nvidia.com/gpu=all"):
        said = pods.create(bed, team, pod("trick", Wish(gpus="1", env={names.ENV_VISIBLE_DEVICES: value})))
        assert names.ENV_VISIBLE_DEVICES in said, f"the webhook let {names.ENV_VISIBLE_DEVICES}={value} in"
    others = [cuda_pod(f"image{number}", image=cuda_image.OTHER) for number in range(GPUS)]
    annotated = _annotated(bed.uuids)
    asked = [wanted for wanted in annotated if not pods.create(bed, team, wanted)]
    pods.start(bed, team, *others)
    for wanted in asked:
        pods.wait_running(bed, team, wanted["metadata"]["name"])
    wrong = [
        f"{name}: {complaint}"
        for name in (wanted["metadata"]["name"] for wanted in (*others, *asked))
        for complaint in sights.complaints(pods.look(bed, team, name), bed.uuids)
    ]
    assert not wrong, "; ".join(wrong)
    refused = len(annotated) - len(asked)
    return (
        f"3 variables refused, image of another card 4 of 4 harmless, annotations: {refused} refused, the rest harmless"
    )


def _annotated(cards: Sequence[str]) -> list[Object]:
    """Build pods that name all cards in annotations that a runtime or NVIDIA's NRI plugin could read."""
    kinds = ("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu", "management.nvidia.com/gpu")
    every = ",".join(f"k8s.device-plugin.nvidia.com/gpu={uuid}" for uuid in cards)
    wanted = {
        "by-cdi": {f"cdi.k8s.io/nvshare{number}": f"{kind}=all" for number, kind in enumerate(kinds)},
        "by-nri": {"nvidia.cdi.k8s.io/container.main": "management.nvidia.com/gpu=all"},
        "by-nri-card": {"nvidia.cdi.k8s.io/container.main": every},
        "by-nri-pod": {"nvidia.cdi.k8s.io/pod": every},
    }
    return [cuda_pod(name, annotations=annotations) for name, annotations in wanted.items()]


# ---------------------------------------------------------------------------------------------- bursts
def bursts(bed: Bed, team: str, count: int = 1) -> str:
    """Start pods twenty at a time while others write CDI specs: each sees its own card, hardly one is late."""
    late = 0
    with noise(bed.house.node.path("/run/cdi")):
        for number in range(count):
            for place in range(BURST):
                assert not (refused := pods.create(bed, team, looking_pod(f"b{number}-{place}"))), refused
            wait_until(partial(pods.all_ended, bed, team, BURST), what=f"{BURST} pods end", seconds=120)
            _check_burst(bed, team)
            late += len(pods.refusals(bed, team))
            pods.remove_all(bed, team)
    starts = count * BURST
    assert late <= max(1, int(MAX_LATE * starts)), f"{late} of {starts} starts were late"
    return f"{starts} of {starts} right, {late} late"


def _check_burst(bed: Bed, team: str) -> None:
    wrong: list[str] = []
    for item in bed.core.list_namespaced_pod(team).items:
        name, said = item.metadata.name, pods.log(bed, team, item.metadata.name)
        if item.status.phase != "Succeeded":
            wrong.append(f"{name} is {item.status.phase}: {said[-200:]}")
        else:
            wrong += [f"{name}: {complaint}" for complaint in sights.complaints(sights.read(said), bed.uuids)]
    assert not wrong, f"{len(wrong)} of {BURST} wrong: {wrong[0]}"


STEPS: Mapping[Outcome, tuple[tuple[str, Step], ...]] = {
    Outcome.RUNS: (
        ("daemons", daemons_start),
        ("one pod", gets_its_card),
        ("tricks", tricks_fail),
        ("bursts", bursts),
        ("doctor", doctor_agrees),
    ),
    Outcome.WAITS: (("daemons", daemons_start), ("one pod", waits_for_devices), ("doctor", doctor_agrees)),
}

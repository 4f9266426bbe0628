"""PyTorch pods on a real node: through webhook, device plugin, hook and daemon, each beside another program.

The rule: two pods want each GPU, and each keeps more than half of a card, so no two fit side by side.  The software
GPU's record then says whether their turns overlapped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.cluster.cache import Say
from testbed.cluster.installed import GPUS, House, Object, Wish, pod
from testbed.frameworks import image
from testbed.frameworks.errors import StepError
from testbed.gpu_record import Overlap, overlaps

GIB_KEPT = 24
"""Of a card of 40: more than half."""
END_SECONDS = 90.0
TOLD = re.compile(r"^steps=(\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class Training:
    """What the PyTorch pods did."""

    steps: dict[str, int]
    overlaps: int
    busy: dict[str, float]
    """Seconds of execution by pod, from the record."""

    def line(self) -> str:
        done = ", ".join(
            f"{name} {count} steps in {self.busy.get(name, 0.0):.1f} GPU s" for name, count in self.steps.items()
        )
        return f"{done}; {self.overlaps} overlaps"


def load_image(house: House, *, say: Say) -> None:
    """Put the image with PyTorch into the node's containerd."""
    house.node.containerd.import_image(image.archive(say=say))


def pods(seconds: float) -> list[Object]:
    """Build a PyTorch pod and a plain one for each GPU."""
    made: list[Object] = []
    for number in range(GPUS):
        command = ("python3", "-m", "testbed.frameworks.steps.torch_pod", "--seconds", f"{seconds:g}")
        training = Wish(command=(*command, "--gib", str(GIB_KEPT)), container={"image": image.NAME})
        burning = ("burn", "--kernel-ms", "5", "--managed-mb", str(GIB_KEPT * 1024), "--seconds", f"{seconds + 5:g}")
        made += [pod(f"torch-{number}", training), pod(f"burn-{number}", Wish(command=(*burning, "--quiet")))]
    return made


def names_of(wanted: Sequence[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in wanted]


def train(house: House, namespace: str, seconds: float) -> Training:
    """Run the pods to their ends, and read what they did."""
    wanted = pods(seconds)
    house.start(namespace, *wanted)
    for name in names_of(wanted):
        house.wait_phase(namespace, name, ("Succeeded", "Failed"), seconds=seconds * 4 + END_SECONDS)
    return read(house, namespace, names_of(wanted))


def read(house: House, namespace: str, names: Sequence[str]) -> Training:
    """Read the pods' own words and the software GPU's record."""
    steps = {}
    for name in (name for name in names if name.startswith("torch-")):
        said = house.kubectl("logs", "-n", namespace, name, check=False)
        told = TOLD.search(said)
        if told is None:
            raise StepError(f"pod {name} did not train; it said: {said[-800:]}", "read the pod's words above")
        steps[name] = int(told[1])
    found: list[Overlap] = []
    busy: dict[str, float] = {}
    record = house.record()
    for card in record.cards:
        intervals = [one for one in record.intervals(card.index) if one.owner.label in names]
        found += overlaps(intervals)
        for one in intervals:
            busy[one.owner.label] = busy.get(one.owner.label, 0.0) + one.seconds
    return Training(steps, len(found), busy)

"""What a container sees of the cards, asked from inside of it, and what is wrong with that.

The rule: nothing is derived from what we wrote into a spec.  The program below looks at /dev, opens nodes, reads its
mounts, and tries nodes that it makes itself.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contract.words import paths
from testbed.nvidia import driver

CONTROL = frozenset({"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"})
_NEEDED = frozenset({"nvidiactl", "nvidia-uvm"})
_LIBRARY = f"libcuda.so.{driver.VERSION}"
ALLOWED = "ENXIO"
"""The kernel's answer of a device that may be opened and has no driver behind it; EPERM is the device cgroup's."""

LOOK = f"""
import errno, json, os, stat

def open_it(path):
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "opened"

def make_and_open(minor):
    path = f"/tmp/card{{minor}}"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(195, minor))
    except OSError as error:
        return errno.errorcode[error.errno]
    try:
        return open_it(path)
    finally:
        os.unlink(path)

mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
print(json.dumps({{
    "nodes": {{name: open_it("/dev/" + name) for name in os.listdir("/dev") if name.startswith("nvidia")}},
    "made": [make_and_open(minor) for minor in range({driver.GPUS})],
    "libraries": sorted(path.rpartition("/")[2] for path in mounts if "/libcuda" in path or "/libnvidia" in path),
    "variable": os.environ.get("NVIDIA_VISIBLE_DEVICES"),
    "uuids": json.load(open("{paths.CONTAINER_SOCKETS}/{paths.OWN_FOLDER}/{paths.ALLOCATION_FILE}"))["uuids"],
}}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one container said."""

    nodes: Mapping[str, str]
    """Each of NVIDIA's nodes in /dev, and what came of opening it."""
    made: Sequence[str]
    """What came of a node that the container made itself, for each card."""
    libraries: Sequence[str]
    variable: str | None
    uuids: Sequence[str]
    """The cards of the container's allocation."""

    @property
    def cards(self) -> frozenset[str]:
        return frozenset(self.nodes) - CONTROL


def has_spoken(text: str) -> bool:
    """Return whether the line of `LOOK` is there, or its error."""
    return any(line.startswith("{") and line.endswith("}") for line in text.splitlines()) or "Error" in text


def read(text: str) -> Sight:
    """Read what `LOOK` printed: the first line of JSON."""
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    assert line is not None, f"the container says: {text[-300:]}"
    return Sight(**json.loads(line))


def complaints(sight: Sight, cards: Sequence[str]) -> list[str]:
    """Return what is not as it must be; `cards` are the node's UUIDs by minor number."""
    minors = {cards.index(uuid) for uuid in sight.uuids}
    expected = {f"nvidia{minor}" for minor in minors}
    found = []
    if sight.cards != expected:
        found.append(f"has the nodes {sorted(sight.cards)} and not {sorted(expected)}")
    if missing := _NEEDED - frozenset(sight.nodes):
        found.append(f"lacks {sorted(missing)}")
    if closed := {name: answer for name, answer in sight.nodes.items() if answer != ALLOWED and name in expected}:
        found.append(f"may not open its own nodes: {closed}")
    reached = {minor for minor, answer in enumerate(sight.made) if answer in (ALLOWED, "opened")}
    if reached - minors:
        found.append(f"reaches cards {sorted(reached - minors)} through nodes that it makes itself")
    if _LIBRARY not in sight.libraries:
        found.append(f"has no {_LIBRARY} of the node: {list(sight.libraries)}")
    return found

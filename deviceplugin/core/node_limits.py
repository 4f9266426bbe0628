"""Decide whether a node can hold the gate: by its kernel, its architecture, and the hook that came with the image.

The module owns the table of reasons.  The scheduler waits for a process by pidfd (`poll` on one needs Linux 5.3), and
seals the gate's memory against later writers (F_SEAL_FUTURE_WRITE, Linux 5.1).  The gate's order of memory accesses is
shown for two architectures.  Pure: what was read of the node is an argument.
"""

import re
from dataclasses import dataclass

FIRST_KERNEL = (5, 3)
MACHINES = {"x86_64": 62, "aarch64": 183}
"""The architectures, as `uname -m` says them, with their number in an ELF header."""
_RELEASE = re.compile(r"([0-9]+)\.([0-9]+)", re.ASCII)
_ELF = b"\x7fELF"
_MACHINE_AT = 18


@dataclass(frozen=True, slots=True)
class NodeKind:
    """What the kernel says of a node."""

    kernel: str
    """`uname -r`."""
    machine: str
    """`uname -m`."""


def why_kernel(node: NodeKind) -> str:
    """Return why this kernel cannot hold the gate; empty where it can, or is not known."""
    found = _RELEASE.match(node.kernel)
    if found is None or (int(found[1]), int(found[2])) >= FIRST_KERNEL:
        return ""
    first = ".".join(map(str, FIRST_KERNEL))
    return f"Linux {node.kernel} has no poll for pidfds, without which a dead process would keep its turn. Use {first}."


def why_machine(node: NodeKind) -> str:
    """Return why this architecture cannot hold the gate; empty where it can."""
    if node.machine in MACHINES:
        return ""
    return f"There is no hook for {node.machine}. Share GPUs on nodes of {' or '.join(MACHINES)} only."


def why_hook(node: NodeKind, head: bytes) -> str:
    """Return why a hook with this ELF header cannot be loaded on the node; empty where it can, or is no ELF file."""
    machine = machine_of(head)
    if machine in ("", node.machine) or node.machine not in MACHINES:
        return ""
    return f"The hook is built for {machine}, and this node is {node.machine}. Use an image for {node.machine}."


def machine_of(head: bytes) -> str:
    """Return the architecture of an ELF file by its first 20 bytes; empty where it is none."""
    if not head.startswith(_ELF) or len(head) < _MACHINE_AT + 2:
        return ""
    number = int.from_bytes(head[_MACHINE_AT : _MACHINE_AT + 2], "little")
    return next((name for name, known in MACHINES.items() if known == number), f"another architecture ({number})")


def why_not(node: NodeKind, head: bytes) -> str:
    """Return the first reason not to share GPUs on this node; empty where there is none."""
    return why_kernel(node) or why_machine(node) or why_hook(node, head)

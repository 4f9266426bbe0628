"""`python -m tests.system.nvidia.page`: writes docs/nvidia-nodes.md, each kind of node with what doctor says of it.

The rule: no line of a report is written by hand.  Only the kernel's version is left out, since it is this machine's.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.nvidia.bed import Bed, nvidia_bed
from testbed.nvidia.kinds import KINDS, NodeKind
from tests.system.nvidia import whole_path

PAGE = Path(__file__).parents[3] / "docs" / "nvidia-nodes.md"
_LEFT_OUT = re.compile(r"^OK +(kernel|architecture) .*\n", re.MULTILINE)
_HEAD = """# Kinds of GPU nodes, and what doctor says on each

Written by `python -m tests.system.nvidia.page`; do not edit.
Each node below was made on the [test bed](../testbed/nvidia/README.md) with NVIDIA's own toolkit.
nvshare-guard was installed with the components named.
`doctor` ran as the Job of [install.md](install.md#check-a-node).
The cards are software; a report on a real node differs in models, UUIDs and versions.
"""


def examine(bed: Bed, kind: NodeKind) -> None:
    """Make the node one of this kind, install, and run doctor."""
    bed.become(kind)
    bed.apply()
    try:
        whole_path.daemons_start(bed, "")
        bed.examine()
    finally:
        bed.remove_daemons()


def section(kind: NodeKind, report: str) -> str:
    """Return a kind's part of the page."""
    components = ", ".join(f"`{name}`" for name in kind.components) or "none"
    facts = (
        f"{kind.what[0].upper()}{kind.what[1:]}.",
        f"Components: {components}.",
        f"A pod with a vGPU {kind.outcome.value}.",
    )
    told = _LEFT_OUT.sub("", report).strip()
    return f"## {kind.name}\n\n" + "\n".join(facts) + f"\n\n```\n{told}\n```\n"


def render(reports: Mapping[str, str]) -> str:
    """Return the page from the report on each kind."""
    return "\n".join([_HEAD, *(section(kind, reports[kind.name]) for kind in KINDS if kind.name in reports)])


def main() -> int:
    with nvidia_bed() as bed:
        for kind in KINDS:
            examine(bed, kind)
        PAGE.write_text(render(bed.reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every kind of GPU node of `testbed/nvidia`, the whole path on each: a row is a kind, its figures are its steps."""

import atexit
import functools
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from testbed.nvidia.bed import Bed, nvidia_bed
from testbed.nvidia.kinds import BY_NAME, KINDS, NodeKind
from tests.runners.drills import Drill, count
from tests.system.nvidia import page
from tests.system.nvidia.whole_path import STEPS, Step, bursts, daemons_start, namespace, specs_vanish

_VANISHING: tuple[tuple[str, Step], ...] = (("daemons", daemons_start), ("specs vanish", specs_vanish))
_MANY: tuple[tuple[str, Step], ...] = (("daemons", daemons_start), ("bursts", partial(bursts, count=count(5))))


@functools.cache
def shared_bed() -> Bed:
    """Start one node for all kinds: it becomes another in a second, and starts in ten."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(nvidia_bed(lambda _: None))


def whole_path(kind: NodeKind, steps: Sequence[tuple[str, Step]]) -> Callable[[], str]:
    def run() -> str:
        bed = shared_bed()
        bed.become(kind)
        bed.apply()
        done: list[str] = []
        try:
            for name, step in steps:
                began = time.monotonic()
                with namespace(bed) as team:
                    try:
                        done.append(f"{step(bed, team)} ({time.monotonic() - began:.0f} s)")
                    except Exception as error:
                        error.add_note(f"step: {name}; before it: {done}")
                        raise
        finally:
            bed.remove_daemons()
        return "; ".join(done)

    return run


def write_page() -> str:
    """Write what doctor said on each kind beside docs/nvidia-nodes.md, into build/."""
    reports = shared_bed().reports
    path = page.PAGE.parents[1] / "build" / page.PAGE.name
    path.write_text(page.render(reports))
    return f"{len(reports)} reports in {path.parent.name}/{path.name}"


DRILLS = [
    *(Drill(f"{kind.name}: {kind.what}"[:70], whole_path(kind, STEPS[kind.outcome])) for kind in KINDS),
    *(
        Drill(f"{name}: its spec vanishes, then is broken", whole_path(BY_NAME[name], _VANISHING))
        for name in ("host-auto-spec", "operator-25.10")
    ),
    Drill("operator-25.10: a hundred starts in bursts of twenty", whole_path(BY_NAME["operator-25.10"], _MANY)),
    Drill("doctor's report on each kind", write_page),
]

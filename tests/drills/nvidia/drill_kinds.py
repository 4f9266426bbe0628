"""Every kind of GPU node of `testbed/nvidia`, the whole path on each: a row is a kind, its figures are its steps."""

import atexit
import functools
import time
from collections.abc import Callable
from contextlib import ExitStack

from testbed.nvidia.bed import Bed, nvidia_bed
from testbed.nvidia.kinds import KINDS, NodeKind, Outcome
from tests.runners.drills import Drill
from tests.system.nvidia.whole_path import STEPS, namespace


@functools.cache
def shared_bed() -> Bed:
    """Start one node for all kinds: it becomes another in a second, and starts in ten."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(nvidia_bed(lambda _: None))


def whole_path(kind: NodeKind) -> Callable[[], str]:
    def run() -> str:
        bed = shared_bed()
        bed.become(kind)
        bed.apply()
        done: list[str] = []
        try:
            for name, step in STEPS if kind.outcome is Outcome.RUNS else STEPS[:1]:
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


DRILLS = [Drill(f"{kind.name}: {kind.what}"[:70], whole_path(kind)) for kind in KINDS]

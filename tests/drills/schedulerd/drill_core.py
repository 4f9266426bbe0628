"""The core at full counts: fuzzed lines, states visited, ten simulated minutes of gangs."""

import os
import time

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.runners.drills import Drill, count
from tests.schedulerd.core.moves import VISITED, Scheduler
from tests.schedulerd.policies.crowds import crowded, longest_wait_bound
from tests.schedulerd.protocol.fuzz import VALUES, fuzz

VALUES += ["gang", "0000000a.1@GPU-1", "", "é", "a=b", "GPU-" + "x" * 70, "1e9", "0x10", " "]


def states(examples: int) -> str:
    """Run the stateful property test for long."""
    VISITED.clear()
    run_state_machine_as_test(
        Scheduler,
        settings=settings(
            max_examples=examples, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    return f"{examples} runs, {len(VISITED)} different states, no promise broken"


def gangs(minutes: float, gpus: int) -> str:
    """Run three overlapping gangs, one of them on all GPUs, with per-device and single clients."""
    simulation, workers = crowded("fair", gpus, seed=gpus)
    began = time.monotonic()
    simulation.run(60 * minutes)
    longest = max(max(one.waits) for one in workers)
    bound = longest_wait_bound(simulation.turns.rules, workers)
    if longest > bound:
        raise AssertionError(f"a wait of {longest:.2f} s is beyond {bound:.2f} s")
    took = time.monotonic() - began
    return f"{minutes:.0f} min on {gpus} GPUs: longest wait {longest:.2f} s (bound {bound:.2f} s), in {took:.0f} s"


DRILLS = [
    Drill("1,000,000 fuzzed lines", lambda: fuzz(count(1_000_000), seed=int(os.environ.get("NVSHARE_SEED", "1")))),
    Drill("states of the core", lambda: states(count(800))),
    Drill("overlapping gangs, 10 simulated minutes, 3 GPUs", lambda: gangs(10 * count(100) / 100, 3)),
    Drill("overlapping gangs, 3 simulated minutes, 16 GPUs", lambda: gangs(3 * count(100) / 100, 16)),
]

"""Overlapping gangs with everybody else, and how long anyone may wait among them."""

import random

from contract.words.grammar import Mode
from schedulerd.core.model import Rules
from schedulerd.policies import POLICIES
from tests.fakes.simulation import Simulation, Worker, worker


def longest_wait_bound(rules: Rules, workers: list[Worker]) -> float:
    """Return the bound of docs/turns.md: 4 n turns until it is aged, 3 m for those that aged before it."""
    crowd = max(sum(gpu in one.container.gpus for one in workers) for gpu in (*workers[0].container.gpus, "GPU-1"))
    longest_drain = max(one.kernel for one in workers)
    return (rules.age_turns * crowd + 3 * len(workers)) * (rules.quantum + longest_drain)


def crowded(policy: str, gpus: int, *, seed: int) -> tuple[Simulation, list[Worker]]:
    draw = random.Random(seed)
    workers = [worker("ab", 1, 2), worker("bc", 2, 3), worker("ca", 1, 3, kernel=0.03)]
    workers += [worker("all", *range(1, gpus + 1), kernel=0.01)]
    workers += [worker(f"s{i}", draw.randint(1, gpus), kernel=draw.choice((0.001, 0.02))) for i in range(gpus)]
    for i in range(2):
        some = draw.sample(range(1, gpus + 1), 2)
        workers.append(worker(f"d{i}", *sorted(some), mode=Mode.PER_DEVICE, burst=0.05, rest=0.1))
    return Simulation(Rules(policy=POLICIES[policy]), workers, gpus=gpus, seed=seed), workers

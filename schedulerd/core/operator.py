"""Changes while turns go on: policy, quantum, pause, drain, facts of containers.

They come from an operator or the cluster.  The rule it owns: each function leaves the core settled.
"""

from collections.abc import Iterable
from dataclasses import replace

from contract.words.grammar import Mode
from schedulerd.core import memory
from schedulerd.core.model import Container, ContainerState, Gpu
from schedulerd.core.turns import Turns
from schedulerd.policies import Policy, Seconds

PAUSED, DRAINED = "paused", "drained"


def set_policy(turns: Turns, policy: Policy, now: Seconds) -> None:
    """Change the policy.  It also decides on the turns that run already."""
    turns.grants.rules = replace(turns.rules, policy=policy)
    for gpu in turns.grants.gpus.values():
        gpu.queue.reorder(policy)
        if gpu.claim is not None:
            turns.grants.give_up_claim(gpu.claim)  # its moment was calculated by the old policy
    turns.grants.settle(turns.grants.gpus.values(), now)


def set_quantum(turns: Turns, gpus: Iterable[Gpu] | None, seconds: Seconds | None, now: Seconds) -> None:
    """Fix the length of turns on some GPUs, or on all.  None adapts it again.  Turns that run keep their length."""
    if gpus is None:
        turns.grants.rules = replace(turns.rules, fixed_quantum=seconds)
        gpus = turns.grants.gpus.values()
        seconds = None
    for gpu in gpus:
        gpu.fixed_quantum = seconds
    turns.grants.settle(turns.grants.gpus.values(), now)


def pause(turns: Turns, gpus: Iterable[Gpu], now: Seconds, *, why: str = PAUSED) -> None:
    """Grant these GPUs to no container.  Holders are asked to yield, and their turns are revoked after the grace."""
    chosen = tuple(gpus)
    for gpu in chosen:
        gpu.paused = why
        if gpu.claim is not None:
            turns.grants.give_up_claim(gpu.claim)
    turns.grants.settle(chosen, now)


def resume(turns: Turns, gpus: Iterable[Gpu], now: Seconds) -> None:
    """Grant these GPUs again."""
    chosen = tuple(gpus)
    for gpu in chosen:
        gpu.paused = None
        gpu.drained = False
    turns.grants.settle(chosen, now)


def drain(turns: Turns, gpus: Iterable[Gpu], now: Seconds, *, at_once: bool) -> None:
    """Place no new container on these GPUs.  With `at_once` the containers that are there get no turn either."""
    chosen = tuple(gpus)
    for gpu in chosen:
        gpu.drained = True
    if at_once:
        pause(turns, chosen, now, why=DRAINED)


def set_facts(turns: Turns, facts: Container, now: Seconds) -> None:
    """Update the facts of a connected container by the cluster's answer.  Its GPUs stay the same."""
    container = turns.containers.get(facts.key)
    if container is None:
        return
    container.facts = replace(facts, gpus=container.facts.gpus)
    container.gang = container.gang or facts.mode is Mode.GANG
    container.groups.clear()
    for uuid in container.facts.gpus:
        memory.recount(turns.rules, turns.gpu(uuid), container)
    turns.grants.settle([turns.gpu(uuid) for uuid in container.facts.gpus], now)


def make_reconnect(turns: Turns, container: ContainerState, now: Seconds) -> None:
    """Make the processes of a container come again, because their welcome is out of date.

    They are asked to end its turns; then their connections are closed.
    """
    container.must_reconnect = True
    for turn in dict.fromkeys(container.turns.values()):
        turns.grants.ask(turn, now)
    turns.grants.hang_up_at_rest(container)

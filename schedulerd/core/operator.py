"""What an operator, the cluster and NVML change while turns go on: policy, quantum, pause, drain, facts, card sizes.

Each function leaves the core settled.
"""

from collections.abc import Iterable
from dataclasses import replace

from contract.grammar import Mode
from schedulerd.core import memory
from schedulerd.core.model import Container, ContainerState, Gpu
from schedulerd.core.turns import Turns
from schedulerd.policies import Policy, Seconds

PAUSED, DRAINED = "paused", "drained"


def set_policy(turns: Turns, policy: Policy, now: Seconds) -> None:
    """Another order from now on; turns that run are judged by it too."""
    turns.grants.rules = replace(turns.rules, policy=policy)
    for gpu in turns.grants.gpus.values():
        gpu.queue.reorder(policy)
        if gpu.claim is not None:
            turns.grants.give_up_claim(gpu.claim)  # when others are to yield was reckoned by the old policy
    turns.grants.settle(turns.grants.gpus.values(), now)


def set_quantum(turns: Turns, gpus: Iterable[Gpu] | None, seconds: Seconds | None, now: Seconds) -> None:
    """A fixed turn on some GPUs, or on all; None adapts again.  Turns that run keep the one they have."""
    if gpus is None:
        turns.grants.rules = replace(turns.rules, fixed_quantum=seconds)
        gpus = turns.grants.gpus.values()
        seconds = None
    for gpu in gpus:
        gpu.fixed_quantum = seconds
    turns.grants.settle(turns.grants.gpus.values(), now)


def pause(turns: Turns, gpus: Iterable[Gpu], now: Seconds, *, why: str = PAUSED) -> None:
    """Nobody gets these GPUs; who has them is asked to yield, and shut out after the grace."""
    chosen = tuple(gpus)
    for gpu in chosen:
        gpu.paused = why
        if gpu.claim is not None:
            turns.grants.give_up_claim(gpu.claim)
    turns.grants.settle(chosen, now)


def resume(turns: Turns, gpus: Iterable[Gpu], now: Seconds) -> None:
    """These GPUs are granted again."""
    chosen = tuple(gpus)
    for gpu in chosen:
        gpu.paused = None
        gpu.drained = False
    turns.grants.settle(chosen, now)


def drain(turns: Turns, gpus: Iterable[Gpu], now: Seconds, *, at_once: bool) -> None:
    """No new container is placed on these GPUs; at once: those that are there get no turn either."""
    chosen = tuple(gpus)
    for gpu in chosen:
        gpu.drained = True
    if at_once:
        pause(turns, chosen, now, why=DRAINED)


def set_capacity(turns: Turns, gpu: Gpu, size: int | None, now: Seconds) -> None:
    """What NVML says a card holds; unknown: nobody runs side by side."""
    if gpu.capacity != size:
        gpu.capacity = size
        for container in gpu.containers.values():
            memory.recount(turns.rules, gpu, container)
        turns.grants.settle((gpu,), now)


def set_facts(turns: Turns, facts: Container, now: Seconds) -> None:
    """The cluster has said more of a container that is connected already; its GPUs stay what they are."""
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
    """What a container's processes were told is wrong: they end its turns, are hung up on, and come again."""
    container.must_reconnect = True
    for turn in dict.fromkeys(container.turns.values()):
        turns.grants.ask(turn, now)
    turns.grants.hang_up_at_rest(container)

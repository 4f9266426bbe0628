"""The core's state as the status and the load: what `nvsharectl`, the device plugin and the metrics read.

The rule it owns: to read changes nothing.  Time since the last charge is added to what is told, not to what is kept,
and no GPU comes into being.  A status is an iterator: a large one is sent in parts between other people's turns.
"""

from collections.abc import Iterator

from contract.wire.control import Figures, PodFacts
from contract.wire.line import Line, encode
from contract.wire.load import GpuLoad, Load, encode_load
from contract.wire.status import ContainerStatus, DaemonStatus, Entry, GpuStatus, PlaceStatus, State, encode_entry
from schedulerd.core.model import ContainerState, Gpu, Stage
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.policies import Seconds

_END = encode(Line("end"))


def write_load(turns: Turns, node: Node, now: Seconds) -> bytes:
    """Return the answer to the load query."""
    figures = node.lately(now)
    gpus = tuple(_gpu_load(gpu, figures.get(gpu.uuid, Figures()), now) for gpu in list_gpus(turns, node, now))
    return encode_load(Load(gpus, age_ms=round(node.age(now) * 1000)))


def list_gpus(turns: Turns, node: Node, now: Seconds) -> list[Gpu]:
    """Return the GPUs that NVML names and those that a container or an operator is concerned with, by UUID."""
    there = node.lately(now)
    return [gpu for uuid, gpu in sorted(turns.grants.gpus.items()) if uuid in there or _matters(gpu)]


def _matters(gpu: Gpu) -> bool:
    """Return whether a GPU that NVML does not name is told of; a MIG instance that was taken apart, say, is not."""
    return bool(gpu.containers or gpu.missing or gpu.drained or gpu.paused or gpu.fixed_quantum)


def _gpu_load(gpu: Gpu, figures: Figures, now: Seconds) -> GpuLoad:
    return GpuLoad(
        uuid=gpu.uuid,
        clients=len(gpu.containers),
        waiting=len(gpu.queue),
        busy=gpu.busy_lately(now),
        memory_used=figures.memory_used,
        memory_total=figures.memory_total,
        temperature=figures.temperature,
        power=figures.power,
        drained=gpu.drained,
    )


def write_status(turns: Turns, node: Node, now: Seconds) -> Iterator[bytes]:
    """Yield the lines of the answer to `status`."""
    for entry in _entries(turns, node, now):
        yield encode_entry(entry)
    yield _END


def _entries(turns: Turns, node: Node, now: Seconds) -> Iterator[Entry]:
    yield _daemon(turns, node)
    figures = node.lately(now)
    for gpu in list_gpus(turns, node, now):
        yield _gpu(gpu, figures.get(gpu.uuid, Figures()), now)
    for container in tuple(turns.containers.values()):
        yield _container(container, node)
        for uuid in container.facts.gpus:
            yield _place(turns.gpu(uuid), container, now)


def _milliseconds(seconds: Seconds | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _microseconds(seconds: Seconds) -> int:
    return round(seconds * 1e6)


def _daemon(turns: Turns, node: Node) -> DaemonStatus:
    rules = turns.rules
    return DaemonStatus(
        epoch=turns.grants.epoch,
        policy=rules.policy.name,
        quantum_ms=_milliseconds(rules.fixed_quantum),
        side_by_side=rules.side_by_side,
        containers=len(turns.containers),
        processes=len(turns.members),
        jams=turns.deadlocks.count,
        foreign=node.foreign,
        loop=tuple(node.loop.latencies) if node.loop else (),
        loop_us=_microseconds(node.loop.worked) if node.loop else None,
        refusals=node.refusals,
        limits=node.limits_reached,
    )


def _gpu(gpu: Gpu, figures: Figures, now: Seconds) -> GpuStatus:
    return GpuStatus(
        uuid=gpu.uuid,
        clients=len(gpu.containers),
        holders=len(gpu.holders),
        waiting=len(gpu.queue),
        busy=gpu.busy_lately(now),
        busy_ms=round((gpu.busy.total + gpu.uncharged(now)) * 1000),
        grants=gpu.grants,
        switches=gpu.switches,
        drained=gpu.drained,
        paused=gpu.paused or "",
        quantum_ms=_milliseconds(gpu.fixed_quantum),
        needed=gpu.needed,
        memory_used=figures.memory_used,
        memory_total=figures.memory_total,
        temperature=figures.temperature,
        power=figures.power,
        utilization=figures.utilization,
    )


def _container(container: ContainerState, node: Node) -> ContainerStatus:
    facts = container.facts
    pod = node.pods.get(facts.key, PodFacts())
    return ContainerStatus(
        key=facts.key,
        namespace=pod.namespace,
        pod=pod.pod,
        container=pod.container,
        mode=facts.mode,
        gang=container.gang,
        weight=facts.weight,
        priority=facts.priority,
        processes=len(container.processes),
        pids=tuple(dict.fromkeys(pid for process in container.processes if (pid := node.pids.get(process, 0)))),
        memory=facts.memory,
    )


def _place(gpu: Gpu, container: ContainerState, now: Seconds) -> PlaceStatus:
    share = container.shares[gpu.uuid]
    state, since = _state(gpu, container)
    uncharged = gpu.uncharged(now) if gpu.uuid in container.turns else 0.0
    return PlaceStatus(
        key=container.facts.key,
        gpu=gpu.uuid,
        state=state,
        since_ms=None if since is None else max(0, round((now - since) * 1000)),
        held_us=_microseconds(share.held + uncharged),
        busy_us=_microseconds(share.busy),
        waited_us=_microseconds(share.waited),
        waits=tuple(share.waits),
        turns=share.turns,
        yields=share.yields,
        overdue=share.overdue,
        pageable=share.pageable,
        unpageable=share.unpageable,
    )


def _state(gpu: Gpu, container: ContainerState) -> tuple[State, Seconds | None]:
    """Return what a container does on a GPU, and since when."""
    turn, request = container.turns.get(gpu.uuid), container.requests.get(gpu.uuid)
    if turn is not None:
        return (State.HOLDS if turn.stage is Stage.RUNNING else State.YIELDS), turn.granted_at
    if request is not None:
        return State.WAITS, request.since
    return State.RESTS, None

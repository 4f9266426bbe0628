"""The state as lines: what `nvsharectl`, the load query and the metrics read.

Each view is an iterator of lines, so that a large one is sent in helpings between other people's turns.
"""

from collections.abc import Iterator, Mapping

from contract.line import Line, encode
from contract.load import GpuLoad, Load, encode_load
from schedulerd.core.model import ContainerState, Gpu, Stage
from schedulerd.core.node_state import Figures, Node, PodFacts
from schedulerd.core.turns import Turns
from schedulerd.core.usage import Share
from schedulerd.policies import Seconds


def load(turns: Turns, node: Node, now: Seconds) -> bytes:
    """The answer to the load query."""
    figures = node.lately(now)
    gpus = tuple(_gpu_load(turns, gpu, figures.get(gpu.uuid, Figures()), now) for gpu in every_gpu(turns, node, now))
    return encode_load(Load(gpus, age_ms=round(node.age(now) * 1000)))


def every_gpu(turns: Turns, node: Node, now: Seconds) -> list[Gpu]:
    """Those that NVML names and those that somebody has, had or spoke of, by UUID."""
    there = node.lately(now)
    return [gpu for uuid, gpu in sorted(turns.grants.gpus.items()) if uuid in there or _matters(gpu)]


def _matters(gpu: Gpu) -> bool:
    """Though NVML does not name it: a MIG instance that was taken apart, say, is nobody's business any more."""
    return bool(gpu.containers or gpu.missing or gpu.drained or gpu.paused or gpu.fixed_quantum)


def _gpu_load(turns: Turns, gpu: Gpu, figures: Figures, now: Seconds) -> GpuLoad:
    turns.grants.accrue(gpu, now)
    return GpuLoad(
        uuid=gpu.uuid,
        clients=len(gpu.containers),
        waiting=len(gpu.queue),
        busy=gpu.busy.lately(now=now),
        memory_used=figures.memory_used,
        memory_total=figures.memory_total,
        temperature=figures.temperature,
        power=figures.power,
        drained=gpu.drained,
    )


def status(turns: Turns, node: Node, now: Seconds) -> Iterator[bytes]:
    """Everything: the daemon, GPUs, containers, and each container on each of its GPUs."""
    yield encode(Line("daemon", _daemon_words(turns, node)))
    figures = node.lately(now)
    for gpu in every_gpu(turns, node, now):
        yield encode(Line("gpu", _gpu_words(turns, gpu, figures.get(gpu.uuid, Figures()), now)))
    for container in tuple(turns.containers.values()):
        yield encode(Line("container", _container_words(container, node)))
        for uuid in container.facts.gpus:
            yield encode(Line("place", _place_words(turns.gpu(uuid), container, now)))
    yield encode(Line("end"))


def _said(words: Mapping[str, object]) -> dict[str, str]:
    """Words without those that have nothing to say."""
    return {key: _text(value) for key, value in words.items() if value is not None and value != ""}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _milliseconds(seconds: Seconds | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _daemon_words(turns: Turns, node: Node) -> dict[str, str]:
    rules = turns.rules
    return _said(
        {
            "epoch": turns.grants.epoch,
            "policy": rules.policy.name,
            "quantum_ms": _milliseconds(rules.fixed_quantum),
            "side_by_side": rules.side_by_side,
            "containers": len(turns.containers),
            "processes": len(turns.members),
            "jams": turns.deadlocks.count,
            "foreign": node.foreign,
            "loop": ",".join(map(str, node.loop.latencies)) if node.loop else None,
            "loop_us": round(node.loop.worked * 1e6) if node.loop else None,
            "refusals": _counts(node.refusals),
            "limits": _counts(node.limits_reached),
        }
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ",".join(f"{name}:{count}" for name, count in sorted(counts.items()))


def _gpu_words(turns: Turns, gpu: Gpu, figures: Figures, now: Seconds) -> dict[str, str]:
    turns.grants.accrue(gpu, now)
    return _said(
        {
            "uuid": gpu.uuid,
            "clients": len(gpu.containers),
            "holders": len(gpu.holders),
            "waiting": len(gpu.queue),
            "busy": gpu.busy.lately(now=now),
            "busy_ms": _milliseconds(gpu.busy.total),
            "grants": gpu.grants,
            "switches": gpu.switches,
            "drained": gpu.drained,
            "paused": gpu.paused,
            "quantum_ms": _milliseconds(gpu.fixed_quantum),
            "needed": gpu.needed,
            "memory_used": figures.memory_used,
            "memory_total": figures.memory_total,
            "temperature": figures.temperature,
            "power": figures.power,
            "utilization": figures.utilization,
        }
    )


def _container_words(container: ContainerState, node: Node) -> dict[str, str]:
    facts = container.facts
    pod = node.pods.get(facts.key, PodFacts())
    pids = dict.fromkeys(str(pid) for process in container.processes if (pid := node.pids.get(process, 0)))
    return _said(
        {
            "key": facts.key,
            "namespace": pod.namespace,
            "pod": pod.pod,
            "container": pod.container,
            "mode": facts.mode,
            "gang": container.gang,
            "weight": facts.weight,
            "priority": facts.priority,
            "processes": len(container.processes),
            "pids": ",".join(pids),
            "memory": facts.memory,
        }
    )


def _place_words(gpu: Gpu, container: ContainerState, now: Seconds) -> dict[str, str]:
    share: Share = container.shares[gpu.uuid]
    state, since = state_of(gpu, container)
    return _said(
        {
            "key": container.facts.key,
            "gpu": gpu.uuid,
            "state": state,
            "since_ms": None if since is None else max(0, round((now - since) * 1000)),
            "held_us": round(share.held * 1e6),
            "busy_us": round(share.busy * 1e6),
            "waited_us": round(share.waited * 1e6),
            "waits": ",".join(map(str, share.waits)),
            "turns": share.turns,
            "yields": share.yields,
            "overdue": share.overdue,
            "pageable": share.pageable,
            "unpageable": share.unpageable,
        }
    )


def state_of(gpu: Gpu, container: ContainerState) -> tuple[str, Seconds | None]:
    """What a container does on a GPU, and since when."""
    turn, request = container.turns.get(gpu.uuid), container.requests.get(gpu.uuid)
    if turn is not None:
        return ("holds" if turn.stage is Stage.RUNNING else "yields"), turn.granted_at
    if request is not None:
        return "waits", request.since
    return "rests", None

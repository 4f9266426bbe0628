"""The status as Prometheus' text form.

The rule it owns: the metrics' names and meaning, in one table for GPUs and one for containers on GPUs.  Text is written
line by line: 3,200 pairs of container and GPU in a client library's objects would take 50 MB.  Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from contract.wire.status import ContainerStatus, DaemonStatus, GpuStatus, PlaceStatus, Status
from schedulerd.core.usage import WAIT_BOUNDS
from schedulerd.eventloop.loop import LATENCY_BOUNDS

T = TypeVar("T")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric(Generic[T]):
    """One family: how its value is read from the status, and what it is multiplied by."""

    name: str
    kind: str
    value: Callable[[T], float | None]
    scale: float
    help: str


GPU_METRICS: tuple[Metric[GpuStatus], ...] = (
    Metric("nvshare_schedulerd_gpu_clients", "gauge", lambda gpu: gpu.clients, 1, "Containers that have the GPU."),
    Metric(
        "nvshare_schedulerd_gpu_holders",
        "gauge",
        lambda gpu: gpu.holders,
        1,
        "Containers whose turn it is; more than one side by side.",
    ),
    Metric(
        "nvshare_schedulerd_gpu_queue_length", "gauge", lambda gpu: gpu.waiting, 1, "Containers that wait for a turn."
    ),
    Metric(
        "nvshare_schedulerd_gpu_busy_ratio",
        "gauge",
        lambda gpu: gpu.busy,
        1,
        "Share of the last ten seconds in which somebody held it.",
    ),
    Metric(
        "nvshare_schedulerd_gpu_held_seconds_total",
        "counter",
        lambda gpu: gpu.busy_ms,
        1e-3,
        "Time in which somebody held it.",
    ),
    Metric("nvshare_schedulerd_gpu_turns_total", "counter", lambda gpu: gpu.grants, 1, "Turns granted."),
    Metric(
        "nvshare_schedulerd_gpu_switches_total",
        "counter",
        lambda gpu: gpu.switches,
        1,
        "Turns that went to another container than before.",
    ),
    Metric("nvshare_schedulerd_gpu_drained", "gauge", lambda gpu: gpu.drained, 1, "1 when an operator drained it."),
    Metric(
        "nvshare_schedulerd_gpu_allocated_bytes",
        "gauge",
        lambda gpu: gpu.needed,
        1,
        "Memory that its containers have, contexts included.",
    ),
    Metric(
        "nvshare_schedulerd_gpu_memory_total_bytes",
        "gauge",
        lambda gpu: gpu.memory_total,
        1,
        "The card's memory, by NVML.",
    ),
    Metric(
        "nvshare_schedulerd_gpu_memory_used_bytes",
        "gauge",
        lambda gpu: gpu.memory_used,
        1,
        "The card's used memory, by NVML.",
    ),
    Metric("nvshare_schedulerd_gpu_temperature_celsius", "gauge", lambda gpu: gpu.temperature, 1, "By NVML."),
    Metric("nvshare_schedulerd_gpu_power_watts", "gauge", lambda gpu: gpu.power, 1, "By NVML."),
    Metric("nvshare_schedulerd_gpu_utilization_ratio", "gauge", lambda gpu: gpu.utilization, 1, "By NVML."),
)
PLACE_METRICS: tuple[Metric[PlaceStatus], ...] = (
    Metric(
        "nvshare_schedulerd_held_seconds_total",
        "counter",
        lambda place: place.held_us,
        1e-6,
        "Time in which the container held the GPU.",
    ),
    Metric(
        "nvshare_schedulerd_busy_seconds_total",
        "counter",
        lambda place: place.busy_us,
        1e-6,
        "Time in which its processes had work in flight there, by their own word and summed over them.",
    ),
    Metric(
        "nvshare_schedulerd_turns_total", "counter", lambda place: place.turns, 1, "Turns of the container on the GPU."
    ),
    Metric(
        "nvshare_schedulerd_yields_asked_total",
        "counter",
        lambda place: place.yields,
        1,
        "Times it was asked to yield.",
    ),
    Metric(
        "nvshare_schedulerd_overdue_total",
        "counter",
        lambda place: place.overdue,
        1,
        "Times it was shut out after the grace.",
    ),
    Metric(
        "nvshare_schedulerd_pageable_bytes",
        "gauge",
        lambda place: place.pageable,
        1,
        "Memory that it has there and that can be paged out.",
    ),
    Metric(
        "nvshare_schedulerd_unpageable_bytes",
        "gauge",
        lambda place: place.unpageable,
        1,
        "Memory that it has there and that cannot.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one scrape tells: the status, and what the observer itself knows."""

    status: Status
    fairness: Mapping[str, float] = field(default_factory=dict)
    strangers: Mapping[str, int] = field(default_factory=dict)
    kubelet_failures: int = 0
    stalled: bool = False
    watching: bool | None = None
    dropped_events: int | None = None


def expose(snapshot: Snapshot) -> Iterator[str]:
    """Yield the page, a line at a time."""
    status = snapshot.status
    up = int(status.daemon is not None)
    yield from _single("nvshare_schedulerd_turn_loop_up", "gauge", "1 when the turn process answers.", up)
    if status.daemon is not None:
        yield from _daemon(status.daemon)
    for metric in GPU_METRICS:
        yield from _family(metric, ((_labels(gpu=gpu.uuid), gpu) for gpu in status.gpus))
    owners = {container.key: container for container in status.containers}
    places = [(_place_labels(place, owners[place.key]), place) for place in status.places if place.key in owners]
    for family in PLACE_METRICS:
        yield from _family(family, places)
    yield from _waits(places)
    yield from _by_gpu(
        "nvshare_schedulerd_gpu_fairness", "Jain's index over the last minute, by weight.", snapshot.fairness
    )
    yield from _by_gpu(
        "nvshare_schedulerd_gpu_unknown_processes", "Processes on it that are no client of ours.", snapshot.strangers
    )
    yield from _single(
        "nvshare_schedulerd_kubelet_failures_total", "counter", "Lists that failed.", snapshot.kubelet_failures
    )
    stalled = "1 while no look at the cards or at the API has come to an end for minutes."
    yield from _single("nvshare_schedulerd_observer_stalled", "gauge", stalled, int(snapshot.stalled))
    if snapshot.watching is not None:
        yield from _single(
            "nvshare_schedulerd_pod_watch_up", "gauge", "1 while this node's pods are watched.", int(snapshot.watching)
        )
    if snapshot.dropped_events is not None:
        yield from _single(
            "nvshare_schedulerd_events_dropped_total", "counter", "Events not told.", snapshot.dropped_events
        )


def _daemon(daemon: DaemonStatus) -> Iterator[str]:
    yield from _single("nvshare_schedulerd_containers", "gauge", "Connected containers.", daemon.containers)
    yield from _single("nvshare_schedulerd_processes", "gauge", "Connected processes.", daemon.processes)
    jams = "Groups of containers that waited for each other."
    yield from _single("nvshare_schedulerd_jams_total", "counter", jams, daemon.jams)
    foreign = "Clients of another pod than their socket's."
    yield from _single("nvshare_schedulerd_foreign_clients_total", "counter", foreign, daemon.foreign)
    yield from _head(
        "nvshare_schedulerd_refused_lines_total", "counter", "Lines of clients that were refused, by code."
    )
    for code, count in daemon.refusals.items():
        yield f"nvshare_schedulerd_refused_lines_total{{{_labels(code=code)}}} {count}"
    limits = "Times that a container had to wait, or a client was hung up on, by the limit it had reached."
    yield from _head("nvshare_schedulerd_limits_reached_total", "counter", limits)
    for limit, count in daemon.limits.items():
        yield f"nvshare_schedulerd_limits_reached_total{{{_labels(limit=limit)}}} {count}"
    if daemon.loop:
        yield from _head(
            "nvshare_schedulerd_loop_seconds", "histogram", "How long the turn loop took for one batch of events."
        )
        yield from _histogram("nvshare_schedulerd_loop_seconds", "", LATENCY_BOUNDS, daemon.loop)
        yield f"nvshare_schedulerd_loop_seconds_sum {(daemon.loop_us or 0) / 1e6:.6f}"


def _waits(places: Sequence[tuple[str, PlaceStatus]]) -> Iterator[str]:
    yield from _head("nvshare_schedulerd_waited_seconds", "histogram", "How long a container waited for a turn.")
    for labels, place in places:
        yield from _histogram("nvshare_schedulerd_waited_seconds", labels, WAIT_BOUNDS, place.waits)
        yield f"nvshare_schedulerd_waited_seconds_sum{{{labels}}} {place.waited_us / 1e6:.6f}"


def _histogram(name: str, labels: str, bounds: Sequence[float], counts: Sequence[int]) -> Iterator[str]:
    total, comma = 0, "," if labels else ""
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        total += count
        yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
    yield f"{name}_count{{{labels}}} {total}" if labels else f"{name}_count {total}"


def _family(metric: Metric[T], rows: Iterable[tuple[str, T]]) -> Iterator[str]:
    yield from _head(metric.name, metric.kind, metric.help)
    for labels, row in rows:
        value = metric.value(row)
        if value is not None:
            yield f"{metric.name}{{{labels}}} {value * metric.scale:.10g}"


def _by_gpu(name: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield from _head(name, "gauge", text)
    for gpu, value in values.items():
        yield f"{name}{{{_labels(gpu=gpu)}}} {value:.6g}"


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"{name} {value}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _place_labels(place: PlaceStatus, owner: ContainerStatus) -> str:
    return _labels(gpu=place.gpu, namespace=owner.namespace, pod=owner.pod, container=owner.container or owner.key)


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""The status as Prometheus' text form.

Owns the metrics' names and meaning: one table for what is said of a GPU, one for what is said of a container on one.
Text is written line by line: 3,200 pairs of container and GPU in a client library's objects would take 50 MB.
Pure; may import the contract and the accounts' bounds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from contract.line import Line
from schedulerd.core.usage import WAIT_BOUNDS
from schedulerd.eventloop.loop import LATENCY_BOUNDS

Words = Mapping[str, str]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family: where its value stands in a line of the status, and what it is multiplied by."""

    name: str
    kind: str
    key: str
    scale: float
    help: str


GPU_METRICS = (
    Metric("nvshare_schedulerd_gpu_clients", "gauge", "clients", 1, "Containers that have the GPU."),
    Metric(
        "nvshare_schedulerd_gpu_holders",
        "gauge",
        "holders",
        1,
        "Containers whose turn it is; more than one side by side.",
    ),
    Metric("nvshare_schedulerd_gpu_queue_length", "gauge", "waiting", 1, "Containers that wait for a turn."),
    Metric(
        "nvshare_schedulerd_gpu_busy_ratio",
        "gauge",
        "busy",
        1,
        "Share of the last ten seconds in which somebody held it.",
    ),
    Metric("nvshare_schedulerd_gpu_held_seconds_total", "counter", "busy_ms", 1e-3, "Time in which somebody held it."),
    Metric("nvshare_schedulerd_gpu_turns_total", "counter", "grants", 1, "Turns granted."),
    Metric(
        "nvshare_schedulerd_gpu_switches_total",
        "counter",
        "switches",
        1,
        "Turns that went to another container than before.",
    ),
    Metric("nvshare_schedulerd_gpu_drained", "gauge", "drained", 1, "1 when an operator drained it."),
    Metric(
        "nvshare_schedulerd_gpu_allocated_bytes",
        "gauge",
        "needed",
        1,
        "Memory that its containers have, contexts included.",
    ),
    Metric("nvshare_schedulerd_gpu_memory_total_bytes", "gauge", "memory_total", 1, "The card's memory, by NVML."),
    Metric("nvshare_schedulerd_gpu_memory_used_bytes", "gauge", "memory_used", 1, "The card's used memory, by NVML."),
    Metric("nvshare_schedulerd_gpu_temperature_celsius", "gauge", "temperature", 1, "By NVML."),
    Metric("nvshare_schedulerd_gpu_power_watts", "gauge", "power", 1, "By NVML."),
    Metric("nvshare_schedulerd_gpu_utilization_ratio", "gauge", "utilization", 1, "By NVML."),
)
PLACE_METRICS = (
    Metric(
        "nvshare_schedulerd_held_seconds_total", "counter", "held_us", 1e-6, "Time in which the container held the GPU."
    ),
    Metric(
        "nvshare_schedulerd_busy_seconds_total",
        "counter",
        "busy_us",
        1e-6,
        "Time in which its processes had work in flight there, by their own word and summed over them.",
    ),
    Metric("nvshare_schedulerd_turns_total", "counter", "turns", 1, "Turns of the container on the GPU."),
    Metric("nvshare_schedulerd_yields_asked_total", "counter", "yields", 1, "Times it was asked to yield."),
    Metric("nvshare_schedulerd_overdue_total", "counter", "overdue", 1, "Times it was shut out after the grace."),
    Metric(
        "nvshare_schedulerd_pageable_bytes",
        "gauge",
        "pageable",
        1,
        "Memory that it has there and that can be paged out.",
    ),
    Metric(
        "nvshare_schedulerd_unpageable_bytes", "gauge", "unpageable", 1, "Memory that it has there and that cannot."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one scrape tells: the status' lines, and what the observer itself knows."""

    lines: Sequence[Line]
    fairness: Mapping[str, float] = field(default_factory=dict)
    strangers: Mapping[str, int] = field(default_factory=dict)
    kubelet_failures: int = 0
    stalled: bool = False
    watching: bool | None = None
    dropped_events: int | None = None


def expose(snapshot: Snapshot) -> Iterator[str]:
    """The page, a line at a time."""
    by_verb: dict[str, list[Words]] = defaultdict(list)
    for line in snapshot.lines:
        by_verb[line.verb].append(line.words)
    yield from _single(
        "nvshare_schedulerd_turn_loop_up", "gauge", "1 when the turn process answers.", 1 if by_verb["daemon"] else 0
    )
    for words in by_verb["daemon"]:
        yield from _daemon(words)
    for metric in GPU_METRICS:
        yield from _family(metric, ((_labels(gpu=words["uuid"]), words) for words in by_verb["gpu"]))
    owners = {words["key"]: words for words in by_verb["container"]}
    places = [(_place_labels(words, owners), words) for words in by_verb["place"] if words["key"] in owners]
    for metric in PLACE_METRICS:
        yield from _family(metric, places)
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


def _daemon(words: Words) -> Iterator[str]:
    yield from _single("nvshare_schedulerd_containers", "gauge", "Connected containers.", int(words["containers"]))
    yield from _single("nvshare_schedulerd_processes", "gauge", "Connected processes.", int(words["processes"]))
    yield from _single(
        "nvshare_schedulerd_jams_total",
        "counter",
        "Groups of containers that waited for each other.",
        int(words["jams"]),
    )
    foreign = int(words.get("foreign", "0"))
    yield from _single(
        "nvshare_schedulerd_foreign_clients_total", "counter", "Clients of another pod than their socket's.", foreign
    )
    yield from _head(
        "nvshare_schedulerd_refused_lines_total", "counter", "Lines of clients that were refused, by code."
    )
    for code, count in _counts(words.get("refusals", "")):
        yield f"nvshare_schedulerd_refused_lines_total{{{_labels(code=code)}}} {count}"
    limits = "Times that a container had to wait, or a client was hung up on, by the limit it had reached."
    yield from _head("nvshare_schedulerd_limits_reached_total", "counter", limits)
    for limit, count in _counts(words.get("limits", "")):
        yield f"nvshare_schedulerd_limits_reached_total{{{_labels(limit=limit)}}} {count}"
    if "loop" in words:
        yield from _head(
            "nvshare_schedulerd_loop_seconds", "histogram", "How long the turn loop took for one batch of events."
        )
        counts = [int(part) for part in words["loop"].split(",")]
        yield from _histogram("nvshare_schedulerd_loop_seconds", "", LATENCY_BOUNDS, counts)
        yield f"nvshare_schedulerd_loop_seconds_sum {int(words.get('loop_us', '0')) / 1e6:.6f}"


def _counts(text: str) -> Iterator[tuple[str, str]]:
    """Names and counts of a list such as `bad-line:3,again:1`."""
    for part in filter(None, text.split(",")):
        name, _, count = part.partition(":")
        yield name, count


def _waits(places: Sequence[tuple[str, Words]]) -> Iterator[str]:
    yield from _head("nvshare_schedulerd_waited_seconds", "histogram", "How long a container waited for a turn.")
    for labels, words in places:
        yield from _histogram(
            "nvshare_schedulerd_waited_seconds", labels, WAIT_BOUNDS, [int(n) for n in words["waits"].split(",")]
        )
        yield f"nvshare_schedulerd_waited_seconds_sum{{{labels}}} {int(words['waited_us']) / 1e6:.6f}"


def _histogram(name: str, labels: str, bounds: Sequence[float], counts: Sequence[int]) -> Iterator[str]:
    total, comma = 0, "," if labels else ""
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        total += count
        yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
    yield f"{name}_count{{{labels}}} {total}" if labels else f"{name}_count {total}"


def _family(metric: Metric, rows: Iterable[tuple[str, Words]]) -> Iterator[str]:
    yield from _head(metric.name, metric.kind, metric.help)
    for labels, words in rows:
        if metric.key in words:
            yield f"{metric.name}{{{labels}}} {float(words[metric.key]) * metric.scale:.10g}"


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


def _place_labels(words: Words, owners: Mapping[str, Words]) -> str:
    owner = owners[words["key"]]
    pod = {name: owner.get(name, "") for name in ("namespace", "pod")}
    return _labels(gpu=words["gpu"], **pod, container=owner.get("container", words["key"]))


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

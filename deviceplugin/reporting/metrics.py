"""Metrics in Prometheus' form: what is shared and used now, and what the calls did.

The module owns names and labels.  Present values are read when a scrape comes, so no label outlives its pod; events are
counted.  Each plugin has a registry of its own, without the process's metrics.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deviceplugin.core.events import Allocated, CallRefused, CallTook, GpuUnhealthy, PluginEvent, Registered
from deviceplugin.core.retention import Ownership, free_slots
from deviceplugin.errors import REFUSALS
from deviceplugin.gpus.publisher import Publisher

_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)
_CALLS = ("GetPreferredAllocation", "Allocate", "PreStartContainer")
_PREFIX = "nvshare_device_plugin"


@dataclass(frozen=True, slots=True)
class NodeCollector(Collector):
    """The values that are true when a scrape comes."""

    publisher: Publisher
    ownership: Callable[[], Ownership | None]
    load_is_fresh: Callable[[], bool]
    pod_resources: Callable[[], Mapping[str, bool]]
    """Each question to pod-resources, and whether it is answered."""
    dropped_events: Callable[[], int] | None = None
    """None: without a cluster there are no events."""

    def collect(self) -> Iterator[Metric]:
        yield from self._gpus()
        ownership = self.ownership()
        if ownership is not None:
            yield from self._pods(ownership)
        fresh = GaugeMetricFamily(f"{_PREFIX}_load_fresh", "1 while the scheduler tells load.")
        fresh.add_metric([], float(self.load_is_fresh()))
        yield fresh
        up = GaugeMetricFamily(f"{_PREFIX}_pod_resources_up", "1 while the kubelet answers it.", labels=["call"])
        for call, is_answered in self.pod_resources().items():
            up.add_metric([call], float(is_answered))
        yield up
        if self.dropped_events is not None:
            name = f"{_PREFIX}_events_dropped"
            yield CounterMetricFamily(name, "Events that the cluster was not told.", value=self.dropped_events())

    def _gpus(self) -> Iterator[Metric]:
        device_list = self.publisher.device_list
        slots = GaugeMetricFamily(f"{_PREFIX}_slots", "Slots of a shared GPU.", labels=["uuid", "model"])
        healthy = GaugeMetricFamily(f"{_PREFIX}_gpu_healthy", "1 while a GPU is given out.", labels=["uuid"])
        refused = GaugeMetricFamily(f"{_PREFIX}_gpu_refused", "1: a GPU is not shared.", labels=["uuid", "reason"])
        for shared in device_list.inventory.shared:
            slots.add_metric([shared.gpu.uuid, shared.gpu.model], shared.slots)
            healthy.add_metric([shared.gpu.uuid], float(shared.gpu.uuid not in device_list.unhealthy))
        for uuid, refusal in device_list.inventory.refused.items():
            refused.add_metric([uuid, refusal.code], 1.0)
        yield from (slots, healthy, refused)

    def _pods(self, ownership: Ownership) -> Iterator[Metric]:
        device_list = self.publisher.device_list
        free = GaugeMetricFamily(f"{_PREFIX}_free_slots", "Slots that nobody has.", labels=["uuid"])
        for uuid, slots in free_slots(device_list, ownership).items():
            free.add_metric([uuid], slots)
        labels = ["namespace", "pod", "container", "uuid"]
        assigned = GaugeMetricFamily(f"{_PREFIX}_assignment", "1: a container has a slot of the GPU.", labels=labels)
        for each in ownership.assignments:
            for device_id in each.device_ids:
                slot = device_list.inventory.slot_of.get(device_id)
                uuid = slot.uuid if slot else device_id
                assigned.add_metric([each.namespace, each.pod, each.container, uuid], 1.0)
        yield from (free, assigned)


class Counts:
    """Counters of what happened."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, told: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", told, labels, registry=registry)

        self._allocations = counter("allocations", "Containers that were given slots.", "vgpus")
        self._refusals = counter("refusals", "Calls refused, by reason.", "reason")
        self._registrations = counter("registrations", "Registrations with the kubelet, by cause.", "cause")
        self._troubles = counter("gpu_troubles", "Times that a GPU became unhealthy.", "uuid")
        self._seconds = Histogram(
            f"{_PREFIX}_call_seconds", "How long a call took.", ["call"], buckets=_BUCKETS, registry=registry
        )
        for code in REFUSALS:  # start at 0: a rate over a series that appears with 1 misses the first
            self._refusals.labels(code)
        for call in _CALLS:
            self._seconds.labels(call)
        self._counters: dict[type, Callable[[Any], None]] = {
            Allocated: lambda it: self._allocations.labels(str(len(it.allocation.device_ids))).inc(),
            CallRefused: lambda it: self._refusals.labels(it.refusal.code).inc(),
            CallTook: lambda it: self._seconds.labels(it.call).observe(it.seconds),
            Registered: lambda it: self._registrations.labels(it.cause).inc(),
            GpuUnhealthy: lambda it: self._troubles.labels(it.uuid).inc(),
        }

    def count(self, event: PluginEvent) -> None:
        """Count one event."""
        counter = self._counters.get(type(event))
        if counter is not None:
            counter(event)

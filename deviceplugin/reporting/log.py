"""The line that each event leaves in the log."""

import logging
from collections.abc import Callable
from typing import Any

from deviceplugin.core.events import (
    Allocated,
    CallRefused,
    CallTook,
    DevicesFound,
    DevicesRefused,
    GpuRecovered,
    GpuRefused,
    GpuUnhealthy,
    PluginEvent,
    Registered,
    RegistrationLost,
    SchedulerSilent,
    SpecWritten,
)

log = logging.getLogger(__name__)

_LINES: dict[type, tuple[int, Callable[[Any], str]]] = {
    Allocated: (logging.INFO, lambda it: f"allocated {it.allocation.key}: {' '.join(it.allocation.device_ids)}"),
    CallRefused: (logging.WARNING, lambda it: f"refused a container that asks for {it.size} vGPUs: {it.refusal}"),
    CallTook: (logging.DEBUG, lambda it: f"{it.call} took {it.seconds * 1000:.2f} ms"),
    Registered: (logging.INFO, lambda it: f"registered on {it.socket} ({it.cause})"),
    RegistrationLost: (logging.WARNING, lambda it: f"the registration is lost and is made again: {it.cause}"),
    GpuRefused: (logging.WARNING, lambda it: f"not shared: {it.refusal}"),
    GpuUnhealthy: (logging.WARNING, lambda it: f"GPU {it.uuid} gets no new containers: {it.why}"),
    GpuRecovered: (logging.INFO, lambda it: f"GPU {it.uuid} gets new containers again"),
    SchedulerSilent: (
        logging.WARNING,
        lambda it: f"no scheduler answers for allocation {it.allocation.key}: its container waits",
    ),
    DevicesFound: (logging.INFO, lambda it: it.sentence),
    DevicesRefused: (logging.WARNING, lambda it: f"containers wait: {it.sentence}"),
    SpecWritten: (
        logging.INFO,
        lambda it: (
            f"bound {it.allocation.key} to {' '.join(it.allocation.uuids)} for pod {it.allocation.pod or 'unknown'}"
            f" (binding {it.allocation.binding}, {it.wait} after {it.seconds * 1000:.0f} ms)"
        ),
    ),
}


def write_log(event: PluginEvent) -> None:
    """Write the event's line."""
    level, line = _LINES[type(event)]
    if log.isEnabledFor(level):
        log.log(level, "%s", line(event))

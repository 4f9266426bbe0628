"""The line that each event leaves in the log."""

import logging
from collections.abc import Callable
from typing import Any

from deviceplugin.core.events import (
    Allocated,
    CallRefused,
    CallTook,
    GpuRecovered,
    GpuRefused,
    GpuUnhealthy,
    PluginEvent,
    Registered,
    RegistrationLost,
    SchedulerSilent,
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
}


def write_log(event: PluginEvent) -> None:
    """Write the event's line."""
    level, line = _LINES[type(event)]
    if log.isEnabledFor(level):
        log.log(level, "%s", line(event))

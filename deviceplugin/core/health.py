"""Decide whether a GPU may be given to containers: how troubles begin, add up and pass.

The module owns the rule of recovery.  A GPU that was lost or raised a critical XID is given out again after it has
answered for a quiet time.  Each further XID before that doubles the quiet time.  Pure: the clock is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deviceplugin.core.xids import Meaning, meaning_of

MAX_DOUBLINGS = 7
SILENCE_SECONDS = 60.0
"""A monitor that has not moved for this time is stuck in a call of NVML.  A scan of sixteen cold GPUs takes less."""
STUCK = f"NVML has not answered for {SILENCE_SECONDS:g} s, and it does not say which GPU hangs"


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """The health of one GPU; the default is healthy."""

    trouble: str | None = None
    """Why the GPU is not given out; None while it is healthy."""
    well_from: float = 0.0
    """When the GPU is healthy again if nothing else happens."""
    xids: int = 0
    """How many critical XIDs came lately."""


WELL = GpuHealth()


def raise_xid(health: GpuHealth, number: int, *, now: float, quiet_seconds: float) -> GpuHealth:
    """Return the health after an XID."""
    meaning, text = meaning_of(number)
    if meaning is not Meaning.CRITICAL:
        return health
    quiet = quiet_seconds * 2 ** min(health.xids, MAX_DOUBLINGS)
    trouble = f"XID {number}: {text}"
    return GpuHealth(trouble, max(health.well_from, now + quiet), health.xids + 1)


def lose(health: GpuHealth, *, now: float, quiet_seconds: float) -> GpuHealth:
    """Return the health after the GPU did not answer a question."""
    return replace(health, trouble="it does not answer", well_from=max(health.well_from, now + quiet_seconds))


def answer(health: GpuHealth, *, now: float, quiet_seconds: float) -> GpuHealth:
    """Return the health after the GPU answered a question.

    The GPU is healthy when its quiet time is over.  Its XIDs are forgotten after the same time again.
    """
    if health.trouble is not None:
        return health if now < health.well_from else replace(health, trouble=None)
    forgets_at = health.well_from + quiet_seconds * 2 ** min(health.xids, MAX_DOUBLINGS)
    return WELL if health.xids and now >= forgets_at else health


def is_stuck(beat_at: float, *, now: float) -> bool:
    """Return whether the monitor's last sign of life is too old to believe its figures."""
    return now - beat_at > SILENCE_SECONDS


def unhealthy(healths: Mapping[str, GpuHealth]) -> dict[str, str]:
    """Return the GPUs that may not be given out, each with the reason."""
    return {uuid: health.trouble for uuid, health in healths.items() if health.trouble is not None}

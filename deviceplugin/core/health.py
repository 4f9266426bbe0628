"""Whether a GPU may be given out: how troubles come, add up and pass.

Owns the rule of recovery: a GPU that was lost or raised a critical XID is given out again after it has answered for a
quiet time; each further XID before that doubles the time.  Pure, the clock is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deviceplugin.core.xids import Meaning, meaning_of

MAX_DOUBLINGS = 7
SILENCE_SECONDS = 60.0
"""A watch that has not moved for so long is stuck in a call of NVML's; a scan of sixteen cold GPUs takes less."""
STUCK = f"NVML has not answered for {SILENCE_SECONDS:g} s, and which GPU hangs nobody can know"


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """One GPU's state; the default is well."""

    trouble: str | None = None
    """Why it is not given out; None: it is well."""
    well_from: float = 0.0
    """When it is well again if nothing else happens."""
    xids: int = 0
    """Critical XIDs lately."""


WELL = GpuHealth()


def raise_xid(health: GpuHealth, number: int, *, now: float, quiet_seconds: float) -> GpuHealth:
    """After an XID."""
    meaning, text = meaning_of(number)
    if meaning is not Meaning.CRITICAL:
        return health
    quiet = quiet_seconds * 2 ** min(health.xids, MAX_DOUBLINGS)
    trouble = f"XID {number}: {text}"
    return GpuHealth(trouble, max(health.well_from, now + quiet), health.xids + 1)


def lose(health: GpuHealth, *, now: float, quiet_seconds: float) -> GpuHealth:
    """After a question that the GPU did not answer."""
    return replace(health, trouble="it does not answer", well_from=max(health.well_from, now + quiet_seconds))


def answer(health: GpuHealth, *, now: float, quiet_seconds: float) -> GpuHealth:
    """After a question that it answered: well when its quiet time is over, as new after as long again."""
    if health.trouble is not None:
        return health if now < health.well_from else replace(health, trouble=None)
    forgets_at = health.well_from + quiet_seconds * 2 ** min(health.xids, MAX_DOUBLINGS)
    return WELL if health.xids and now >= forgets_at else health


def is_stuck(beat_at: float, *, now: float) -> bool:
    """Is the watch's last sign of life too old to believe what it said?"""
    return now - beat_at > SILENCE_SECONDS


def unhealthy(healths: Mapping[str, GpuHealth]) -> dict[str, str]:
    """The GPUs that may not be given out, and why."""
    return {uuid: health.trouble for uuid, health in healths.items() if health.trouble is not None}

"""The Lease: it says which process may rotate.

A Lease keeps two rotations from working at once.  It does not protect the Secret: the version of the Secret does.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

Spec = dict[str, Any]


def holder(spec: Mapping[str, Any], me: str, *, now: datetime) -> str:
    """Return the name of another holder of the Lease at `now`; empty where it is free or ours."""
    name = spec.get("holderIdentity") or ""
    if name in ("", me):
        return ""
    renewed, seconds = _moment(spec.get("renewTime")), spec.get("leaseDurationSeconds") or 0
    return name if renewed is not None and now < renewed + timedelta(seconds=seconds) else ""


def claim(spec: Mapping[str, Any], me: str, *, now: datetime, seconds: float) -> Spec:
    """Return the Lease with us as its holder."""
    moment = _text(now)
    ours = spec.get("holderIdentity") == me
    return {
        "holderIdentity": me,
        "leaseDurationSeconds": max(1, round(seconds)),
        "acquireTime": spec.get("acquireTime", moment) if ours else moment,
        "renewTime": moment,
        "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if ours else 1),
    }


def free(spec: Mapping[str, Any], *, now: datetime) -> Spec:
    """Return the Lease without a holder."""
    return {**spec, "holderIdentity": "", "renewTime": _text(now), "leaseDurationSeconds": 1}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None

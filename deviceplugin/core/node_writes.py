"""When the Node's words are written: when they change, and now and then.

The rule it owns is the bounded rate: however many pods come and go, the API server sees a write each few seconds at
most, and fewer while it fails.  The clock is an argument.
"""

from dataclasses import dataclass, replace

from deviceplugin.core.node_labels import NodeLabels

REFRESH_SECONDS = 300.0
"""The words are written anew so often even unchanged: somebody may have taken them away."""
LONGEST_BACKOFF_SECONDS = 60.0
_MAX_DOUBLINGS = 20
"""2**1024 is no float: a day without an API server comes to that."""


@dataclass(frozen=True, slots=True)
class LabelsReport:
    """What the Node was told, and when it may be told again."""

    told: NodeLabels | None = None
    told_at: float = 0.0
    not_before: float = 0.0
    failures: int = 0


def must_write_labels(report: LabelsReport, wanted: NodeLabels, *, now: float, urgent: bool = False) -> bool:
    """Is it time to write the words?  Urgent ones need not wait for the rate, since a label seldom changes."""
    if now < report.not_before and not (urgent and report.failures == 0):
        return False
    return wanted != report.told or now - report.told_at >= REFRESH_SECONDS


def labels_written(words: NodeLabels, *, now: float, seconds: float) -> LabelsReport:
    """After the API server took them."""
    return LabelsReport(told=words, told_at=now, not_before=now + seconds)


def labels_failed(report: LabelsReport, *, now: float, seconds: float) -> LabelsReport:
    """After it did not: later each time."""
    wait = min(seconds * 2 ** min(report.failures, _MAX_DOUBLINGS), LONGEST_BACKOFF_SECONDS)
    return replace(report, failures=report.failures + 1, not_before=now + wait)

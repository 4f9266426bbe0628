"""Decide when the Node's labels and annotation are written: when they change, and now and then.

The rule is a bounded rate.  However many pods come and go, the API server sees one write every few seconds at most, and
fewer while it fails.  The clock is an argument.
"""

from dataclasses import dataclass, replace

from deviceplugin.core.node_labels import NodeLabels

REFRESH_SECONDS = 300.0
"""Labels that did not change are written again after this time, because somebody may have removed them."""
LONGEST_BACKOFF_SECONDS = 60.0
_MAX_DOUBLINGS = 20
"""2**1024 is no float, and a day without an API server would count that far."""


@dataclass(frozen=True, slots=True)
class LabelsReport:
    """The labels that were written last, and when they may be written again."""

    told: NodeLabels | None = None
    told_at: float = 0.0
    not_before: float = 0.0
    failures: int = 0


def must_write_labels(report: LabelsReport, wanted: NodeLabels, *, now: float, urgent: bool = False) -> bool:
    """Return whether it is time to write.  Urgent labels do not wait for the rate, since a label seldom changes."""
    if now < report.not_before and not (urgent and report.failures == 0):
        return False
    return wanted != report.told or now - report.told_at >= REFRESH_SECONDS


def labels_written(words: NodeLabels, *, now: float, seconds: float) -> LabelsReport:
    """Return the report after the API server took the labels."""
    return LabelsReport(told=words, told_at=now, not_before=now + seconds)


def labels_failed(report: LabelsReport, *, now: float, seconds: float) -> LabelsReport:
    """Return the report after the API server failed; each failure doubles the wait."""
    wait = min(seconds * 2 ** min(report.failures, _MAX_DOUBLINGS), LONGEST_BACKOFF_SECONDS)
    return replace(report, failures=report.failures + 1, not_before=now + wait)

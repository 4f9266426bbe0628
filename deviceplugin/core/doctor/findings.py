"""What `doctor` finds: one line each, with a verdict and a fix.

The module owns the four verdicts, and which of them make the exit code 1.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How one thing on the node stands."""

    OK = "OK"
    MISSING = "MISSING"
    """It is not there."""
    WRONG = "WRONG"
    """It is there, and sharing does not work with it."""
    UNSEEN = "UNSEEN"
    """It cannot be seen from where `doctor` runs; the fix says from where it can."""


FAULTS = (Verdict.MISSING, Verdict.WRONG)
_CHECK_WIDTH = 15


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    check: str
    verdict: Verdict
    text: str
    """One sentence about how it stands."""
    fix: str = ""
    """What to do about it; empty where nothing has to be done."""

    def line(self) -> str:
        """Return the finding as text."""
        fix = f" Fix: {self.fix}" if self.fix else ""
        return f"{self.verdict:<8} {self.check:<{_CHECK_WIDTH}} {self.text}{fix}"


def has_faults(findings: Iterable[Finding]) -> bool:
    """Return whether something is missing or wrong."""
    return any(finding.verdict in FAULTS for finding in findings)


def summary(findings: Iterable[Finding]) -> str:
    """Return the last line."""
    verdicts = [finding.verdict for finding in findings]
    counted = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
    return f"{'Something must be done' if set(verdicts) & set(FAULTS) else 'All is well'}: {counted}."


def as_json(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Return the findings as values for JSON."""
    return [{**asdict(finding), "verdict": str(finding.verdict)} for finding in findings]

"""The table of policies.  Each policy has one file and one entry here."""

from schedulerd.policies import fair, fcfs, priority, rr, sjf
from schedulerd.policies.base import FOREVER, Policy, Seconds, Snapshot

POLICIES: dict[str, Policy] = {one.POLICY.name: one.POLICY for one in (fair, rr, priority, sjf, fcfs)}
DEFAULT = fair.POLICY

__all__ = ["DEFAULT", "FOREVER", "POLICIES", "Policy", "Seconds", "Snapshot"]

"""The checks before a container starts: the hook, and the scheduler's answer.

The module owns which missing part stops a container and which only causes a warning.  Without the hook a container
would run unscheduled beside others, so it must not start.  Without the scheduler its hook waits by itself, so it may
start.
"""

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from contract.allocation import Allocation
from deviceplugin.core.events import SchedulerSilent, Tell
from deviceplugin.node.files import NodeFiles

log = logging.getLogger(__name__)
_WAIT_SECONDS = 1.0
"""Time for a running scheduler to open the new allocation's socket; the kubelet gives the call 30 s."""
_STEP_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Check this node."""

    files: NodeFiles
    scheduler_answers: Callable[[], bool]
    tell: Tell

    def check_hook(self) -> None:
        """Raise `NodeNotReady` where the hook is missing and cannot be copied again."""
        if not self.files.hook_is_in_place():
            log.warning("the hook is missing from %s: it is copied there again", self.files.layout.hook_folder)
            self.files.prepare()

    def check_scheduler(self, allocation: Allocation) -> None:
        """Report a scheduler that does not answer on the allocation's socket."""
        if not self._is_answered(allocation):
            self.tell(SchedulerSilent(allocation))

    def _is_answered(self, allocation: Allocation) -> bool:
        """Return whether the scheduler answers; wait only for one that has answered lately."""
        until = time.monotonic() + (_WAIT_SECONDS if self.scheduler_answers() else 0.0)
        while not _connects(str(self.files.layout.socket(allocation.key))):
            if time.monotonic() >= until:
                return False
            time.sleep(_STEP_SECONDS)
        return True


def _connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_STEP_SECONDS)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True

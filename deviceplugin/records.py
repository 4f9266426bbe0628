"""What happens, told to everybody who wants to know: the log now; metrics and events are added in `serve`.

Owns no decision.  Each receiver gets every call; none of them may wait.  May import the contract's reasons and the
allocation's type only.
"""

import logging

from contract.reasons import Refusal
from deviceplugin.allocation import Allocation

log = logging.getLogger(__name__)


class LogRecorder:
    """Writes what happens into the log."""

    def allocated(self, allocation: Allocation) -> None:
        log.info("allocated %s: %s", allocation.key, " ".join(allocation.device_ids))

    def refused(self, refusal: Refusal) -> None:
        """The call has logged it."""

    def took(self, call: str, seconds: float) -> None:
        log.debug("%s took %.2f ms", call, seconds * 1000)

    def registered(self, cause: str) -> None:
        """`living` has logged it."""

    def lost(self, cause: str) -> None:
        """`living` has logged it."""

    def gpu_refused(self, uuid: str, refusal: Refusal) -> None:
        log.warning("GPU %s is not shared: %s", uuid, refusal)

    def gpu_unhealthy(self, uuid: str, why: str) -> None:
        log.warning("GPU %s is not given out: %s", uuid, why)

    def gpu_recovered(self, uuid: str) -> None:
        log.info("GPU %s is given out again", uuid)

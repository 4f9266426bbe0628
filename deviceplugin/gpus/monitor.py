"""Follow the GPUs: scan, ask whether they answer, hear XIDs, and publish inventory and health.

The module owns the one thread that speaks to NVML, and the thread that watches over it.  A GPU that was seen once and
is gone keeps its slots, unhealthy: the pods that hold them are still there.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from adapters.nvml import Xid
from contract.sharing.inventory import Gpu, Inventory
from deviceplugin.core import health
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.events import GpuRecovered, GpuRefused, GpuUnhealthy, Tell
from deviceplugin.core.health import GpuHealth
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.core.xids import meaning_of
from deviceplugin.errors import GpuGone, NvmlUnavailable
from deviceplugin.gpus.cards import GpuLibrary
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.settings import Times

log = logging.getLogger(__name__)
_PIECE_SECONDS = 0.5
"""How long `stop` may go unnoticed."""


class Monitor:
    """What is known about the GPUs; `run` keeps it up to date in a thread."""

    def __init__(self, library: GpuLibrary, publisher: Publisher, rules: Rules, times: Times, tell: Tell) -> None:
        self._library, self._publisher, self._rules, self._times, self._tell = library, publisher, rules, times, tell
        self._clock: Callable[[], float] = time.monotonic
        self._gpus: dict[str, Gpu] = {}
        self._healths: dict[str, GpuHealth] = {}
        self._foreign: Mapping[str, str] = {}
        self._drained: frozenset[str] = frozenset()
        self._told_refused: dict[str, str] = {}
        self._told_unhealthy: dict[str, str] = {}
        self._next_scan = 0.0
        self._search_at = self._search_pause = 0.0
        """When to scan next for GPUs that do not answer, and how long to wait after that scan."""
        self.has_scanned = False
        self._beat_at = self._clock()
        self._is_stuck = False
        self._publishing = threading.Lock()

    def scan(self) -> Inventory:
        """Look for all GPUs; raise `NvmlUnavailable`."""
        self._next_scan = self._clock() + self._times.rescan
        self._gpus = self._gpus | {gpu.uuid: gpu for gpu in self._library.rescan()}
        self._beat()
        self.has_scanned = True
        self._publish()
        return self._publisher.device_list.inventory

    def tell_foreign(self, foreign: Mapping[str, str]) -> None:
        """Take the GPUs that another plugin offers on this node, each with its resource."""
        if foreign != self._foreign:
            self._foreign = foreign
            self._publish()

    def tell_drained(self, drained: frozenset[str]) -> None:
        """Take the GPUs that an operator has drained, so that they get no new work."""
        if drained != self._drained:
            self._drained = drained
            self._publish()

    def run(self, stop: threading.Event) -> None:
        """Check the GPUs and hear XIDs until `stop`."""
        while not stop.is_set():
            self._hear(stop, until=self._clock() + self._times.check)
            self.keep_up()
        self._library.close()

    def guard(self, stop: threading.Event) -> None:
        """Notice when NVML stops answering, and when it answers again; this thread never calls NVML itself."""
        while not stop.wait(_PIECE_SECONDS):
            self.notice_silence()

    def notice_silence(self) -> None:
        """Make every GPU unhealthy while the monitor is stuck, because its figures may be old."""
        is_stuck = health.is_stuck(self._beat_at, now=self._clock())
        if is_stuck != self._is_stuck:
            self._is_stuck = is_stuck
            self._publish()

    @property
    def is_stuck(self) -> bool:
        return self._is_stuck

    def _beat(self) -> None:
        self._beat_at = self._clock()

    def keep_up(self) -> None:
        """Ask every GPU; scan when it is time or a GPU does not answer, since only a scan can find it again."""
        all_answer = self._check_all()
        if all_answer:
            self._search_at = self._search_pause = 0.0
        if self._clock() >= (self._next_scan if all_answer else min(self._next_scan, self._search_at)):
            self._scan_again(searching=not all_answer)

    def _hear(self, stop: threading.Event, *, until: float) -> None:
        while not stop.is_set() and (left := until - self._clock()) > 0:
            self._beat()
            began = self._clock()
            piece = min(left, _PIECE_SECONDS)
            xid = self._library.wait_for_xid(piece)
            if xid is not None:
                self._raise(xid)
            elif self._clock() - began < piece / 2:
                stop.wait(piece)  # a library without events answers at once

    def _raise(self, xid: Xid) -> None:
        meaning, text = meaning_of(xid.number)
        log.warning("XID %d on %s (%s): %s", xid.number, xid.uuid or "an unknown GPU", text, meaning.value)
        if xid.uuid in self._gpus:
            was = self._healths.get(xid.uuid, health.WELL)
            quiet = self._times.quiet
            self._healths[xid.uuid] = health.raise_xid(was, xid.number, now=self._clock(), quiet_seconds=quiet)
            self._publish()

    def _check_all(self) -> bool:
        """Ask every GPU; return False where one does not answer."""
        answered = [self._check(uuid) for uuid in self._gpus]
        self._publish()
        return all(answered)

    def _check(self, uuid: str) -> bool:
        self._beat()
        was, now, quiet = self._healths.get(uuid, health.WELL), self._clock(), self._times.quiet
        try:
            self._library.check(uuid)
        except GpuGone as error:
            log.debug("%s", error)
            self._healths[uuid] = health.lose(was, now=now, quiet_seconds=quiet)
            return False
        self._healths[uuid] = health.answer(was, now=now, quiet_seconds=quiet)
        return True

    def _scan_again(self, *, searching: bool) -> None:
        """Scan, and wait longer before each further search: a search takes the library from healthy GPUs too."""
        try:
            self.scan()
        except NvmlUnavailable as error:
            log.warning("%s", error)
            return
        if searching:
            self._search_pause = min(max(2 * self._search_pause, self._times.check), self._times.rescan)
            self._search_at = self._clock() + self._search_pause

    def _publish(self) -> None:
        with self._publishing:
            inventory = take_stock(self._gpus.values(), self._rules, self._foreign)
            troubled = self._troubled()
            shared = {each.gpu.uuid for each in inventory.shared}
            self._publisher.publish(DeviceList(inventory, frozenset(troubled.keys() & shared)))
            self._tell_changes({uuid: why for uuid, why in troubled.items() if uuid in shared}, inventory)

    def _troubled(self) -> dict[str, str]:
        if self._is_stuck:
            return dict.fromkeys(self._gpus, health.STUCK)
        troubled = health.unhealthy(dict(self._healths))
        return troubled | {uuid: "an operator has drained it" for uuid in self._drained - troubled.keys()}

    def _tell_changes(self, troubled: dict[str, str], inventory: Inventory) -> None:
        """Report each change once."""
        for uuid, refusal in inventory.refused.items():
            if self._told_refused.get(uuid) != refusal.code:
                self._tell(GpuRefused(uuid, refusal))
        for uuid, why in troubled.items():
            if self._told_unhealthy.get(uuid) != why:
                self._tell(GpuUnhealthy(uuid, why))
        for uuid in self._told_unhealthy.keys() - troubled.keys():
            self._tell(GpuRecovered(uuid))
        self._told_refused = {uuid: refusal.code for uuid, refusal in inventory.refused.items()}
        self._told_unhealthy = troubled

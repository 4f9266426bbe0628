"""Keep the node in order beside the kubelet's calls: remove unused folders, and keep the Node's labels true.

The module owns one thread.  It reads from the kubelet which slots are in use, asks the cores what follows, and carries
it out.  The calls of the kubelet never wait for it.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contract.words.node import DevicesFrom
from deviceplugin.core import node_writes, retention
from deviceplugin.core.allocation import allocate
from deviceplugin.core.checkpoint import IdSet
from deviceplugin.core.node_labels import describe_node, enough_room
from deviceplugin.core.retention import Ownership, Unused
from deviceplugin.errors import NodeNotReady, Refused
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.kubelet.ownership import OwnershipReader
from deviceplugin.node.files import NodeFiles
from deviceplugin.reporting.node_reports import Cluster, ClusterUnavailable
from deviceplugin.settings import Times

log = logging.getLogger(__name__)
_FLOOD_SECONDS = 0.1
"""News that comes within this time is handled by one look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerParts:
    """The parts that the reconciler works with."""

    publisher: Publisher
    files: NodeFiles
    ownership_reader: OwnershipReader
    times: Times
    cluster: Cluster | None = None
    devices: Callable[[], DevicesFrom | None] = lambda: None
    """Return where containers' device nodes come from, for the Node's label."""
    clock: Callable[[], float] = time.monotonic


class Reconciler:
    """Look at the kubelet's answers every few seconds, and at once after an allocation or a refusal."""

    def __init__(self, parts: ReconcilerParts) -> None:
        self._parts = parts
        self._news = threading.Event()
        self._urgent = threading.Event()
        self._report = node_writes.LabelsReport()
        self._unused: Mapping[str, Unused] = {}
        self._is_repaired = False
        self._refused_size = 0
        self._announced: frozenset[IdSet] = frozenset()
        self._announced_at = -math.inf
        self.ownership: Ownership | None = None
        """The newest, for metrics; None until the kubelet answered."""

    def wake(self) -> None:
        """Look soon: a container was given slots."""
        self._news.set()

    def end(self) -> None:
        """Wake `run`, so that it notices `stop`."""
        self._urgent.set()
        self._news.set()

    def repair_again(self) -> None:
        """Repair at the next look, because allocations now need other parts."""
        self._is_repaired = False
        self._news.set()

    def note_refused_size(self, size: int) -> None:
        """Look at once: a container asked for more GPUs than had room, and the next pod may come within 0.05 s."""
        self._urgent.set()
        self._refused_size = max(self._refused_size, size)
        self._news.set()

    def run(self, stop: threading.Event) -> None:
        """Look until `stop`; a look that fails is tried again the next time."""
        while not stop.is_set():
            self._news.clear()
            try:
                self._look_once()
            except (OSError, NodeNotReady) as error:
                log.warning("the node's files cannot be kept in order: %s. Trying again at the next look.", error)
            self._news.wait(self._parts.times.report)
            self._urgent.wait(_FLOOD_SECONDS)

    def _look_once(self) -> None:
        if self._urgent.is_set():
            self._urgent.clear()
            if self.ownership is not None:
                # the last ownership is a moment old, which is true enough, and needs no call
                self._write_labels(self.ownership, is_newest=False)
        ownership = self._parts.ownership_reader.refresh()
        if ownership is None:
            return
        self.ownership = ownership
        if not self._is_repaired:
            self.repair(ownership)
            self._is_repaired = True
        self.look(ownership, is_newest=not self._urgent.is_set())

    def repair(self, ownership: Ownership) -> None:
        """Write again what a person removed: folders of slots in use.

        Their CDI specs are written when a container starts, which knows their names from the kubelet.
        """
        self._parts.files.prepare()
        files, inventory = self._parts.files, self._parts.publisher.device_list.inventory
        for ids in {frozenset(each.device_ids) for each in ownership.assignments} | (ownership.kept or frozenset()):
            try:
                allocation = allocate(sorted(ids), inventory, most=0, now=time.time())
            except Refused:
                continue  # its GPU is no longer shared
            if files.write_missing(allocation):
                log.info("allocation %s was missing on the node and was written again", allocation.key)
        for key in files.broken_keys():
            files.remove_broken(key)

    def look(self, ownership: Ownership, *, is_newest: bool = True) -> None:
        """Act on the ownership.  One that was read before the last refusal cannot say that there is room now."""
        self._release(ownership)
        self._let_kubelet_write(ownership)
        self._write_labels(ownership, is_newest=is_newest)

    def _release(self, ownership: Ownership) -> None:
        parts, now = self._parts, self._parts.clock()
        allocations = parts.files.read_all()
        gone, self._unused = retention.release(
            allocations, ownership, self._unused, now=now, seconds=parts.times.release
        )
        for allocation in gone:
            if parts.files.remove(allocation):
                log.info("allocation %s has ended: its folder is removed", allocation.key)
        parts.files.remove_strays({allocation.key for allocation in allocations})

    def _let_kubelet_write(self, ownership: Ownership) -> None:
        """Send the list again, so that the kubelet writes its checkpoint and removes pods that have ended.

        A set of slots that only the checkpoint shows may belong to such a pod.  Send soon where the set is new,
        otherwise now and then.
        """
        parts, now, alone = self._parts, self._parts.clock(), retention.kept_by_checkpoint_alone(ownership)
        self._announced &= alone
        pause = parts.times.report if alone - self._announced else parts.times.release
        if alone and now - self._announced_at >= pause:
            self._announced, self._announced_at = alone, now
            parts.publisher.announce_again()

    def _write_labels(self, ownership: Ownership, *, is_newest: bool) -> None:
        parts, now = self._parts, self._parts.clock()
        device_list = parts.publisher.device_list
        free = retention.free_slots(device_list, ownership)
        if is_newest and enough_room(device_list, free, self._refused_size):
            self._refused_size = 0
        words = describe_node(device_list, free, refused_size=self._refused_size, devices=parts.devices())
        is_urgent = self._report.told is None or words.labels != self._report.told.labels
        if parts.cluster is None or not node_writes.must_write_labels(self._report, words, now=now, urgent=is_urgent):
            return
        try:
            parts.cluster.patch_node(words.labels, words.annotations)
        except ClusterUnavailable as error:
            log.warning("%s", error)
            self._report = node_writes.labels_failed(self._report, now=now, seconds=parts.times.report)
        else:
            self._report = node_writes.labels_written(words, now=now, seconds=parts.times.report)

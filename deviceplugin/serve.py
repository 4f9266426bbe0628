"""`serve`: puts the parts together, runs them in threads, and ends them all on SIGTERM.

Owns the wiring and nothing else; every part gets what it needs as an argument.  May import the whole room.
"""

import logging
import signal
import threading
from collections.abc import Callable
from functools import partial

from contract import names, paths
from deviceplugin.allocation import Allocation
from deviceplugin.board import Board
from deviceplugin.errors import NvmlUnavailable
from deviceplugin.living import KubeletSide, Living
from deviceplugin.load import LoadMemory, keep_load, policy_now
from deviceplugin.node_files import NodeFiles
from deviceplugin.nvml import GpuLibrary, Nvml
from deviceplugin.records import LogRecorder
from deviceplugin.service import Parts
from deviceplugin.settings import Inject, Settings
from deviceplugin.start_check import NodeCheck
from deviceplugin.watch import Watch

log = logging.getLogger(__name__)


class Plugin:
    """One plugin with all its parts; `run` returns when `stop` is set."""

    def __init__(self, settings: Settings, library: GpuLibrary) -> None:
        self.settings = settings
        self.recorder = LogRecorder()
        self.board = Board()
        self.memory = LoadMemory(fresh_seconds=settings.times.load_fresh)
        self.watch = Watch(library, self.board, settings.rules, settings.times, self.recorder)
        self.files = NodeFiles(
            settings.layout, hook_source=settings.hook_file, uses_cdi=settings.inject is not Inject.MOUNTS
        )

    def run(self, stop: threading.Event) -> None:
        """Prepares the node, then lives with the kubelet."""
        self.files.prepare()
        self._scan_first(stop)
        threads = [threading.Thread(target=task, name=name, daemon=True) for name, task in self._tasks(stop)]
        for thread in threads:
            thread.start()
        try:
            Living(self._kubelet_side(), self._parts(), self.recorder).run(stop)
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=3)

    def _tasks(self, stop: threading.Event) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("gpus", partial(self.watch.run, stop)),
            ("load", partial(keep_load, self.settings.control_socket, self.memory, self._on_load, stop)),
        ]

    def _scan_first(self, stop: threading.Event) -> None:
        """Waits for the driver: a node may start us before it."""
        while not stop.is_set():
            try:
                inventory = self.watch.scan()
            except NvmlUnavailable as error:
                log.warning("%s Trying again in %g s.", error, self.settings.times.check)
                stop.wait(self.settings.times.check)
            else:
                log.info("%d GPUs are shared, %d are not", len(inventory.shared), len(inventory.refused))
                return

    def _on_load(self) -> None:
        self.watch.tell_drained(self.memory.drained())

    def _kubelet_side(self) -> KubeletSide:
        folder = self.settings.kubelet_folder
        name = paths.KUBELET_SOCKET.rpartition("/")[2]
        return KubeletSide(folder=folder, socket=folder / name, resource=names.RESOURCE)

    def _parts(self) -> Parts:
        return Parts(
            board=self.board,
            files=self.files,
            recorder=self.recorder,
            start_check=NodeCheck(self.files, self.memory.scheduler_answers, self._warn_unanswered),
            policy=lambda: policy_now(self.memory, self.settings.strategy, self.settings.weights),
            most_per_container=self.settings.most_per_container,
        )

    def _warn_unanswered(self, allocation: Allocation) -> None:
        log.warning("no scheduler answers for allocation %s: its container will wait for one", allocation.key)


def serve(settings: Settings) -> int:
    """Runs until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Plugin(settings, Nvml()).run(stop)
    return 0

"""`serve`: build the parts, run them in threads, and end them all on SIGTERM.

The module owns the wiring and nothing else.  Every part gets what it needs as an argument.
"""

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from adapters.driver_files import find_mounted_node
from adapters.pages.health import HEALTHZ, health_page
from adapters.pages.listeners import listen_on_path, listen_on_port
from adapters.pages.renderer import Page
from adapters.pages.request import Answer
from adapters.pages.server import Server
from contract.words import names, paths
from deviceplugin.core import health
from deviceplugin.core.checkpoint import FILE_NAME
from deviceplugin.core.events import Allocated, CallRefused, DevicesFound, PluginEvent, Tell, node_event_of
from deviceplugin.core.retention import Ownership
from deviceplugin.doctor.runtime import why_unread
from deviceplugin.errors import SAME_GPU, BadSetting, NvmlUnavailable
from deviceplugin.gpus.cards import GpuLibrary, Nvml
from deviceplugin.gpus.monitor import Monitor
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.kubelet.calls import Parts
from deviceplugin.kubelet.checkpoint_reader import ask_checkpoint
from deviceplugin.kubelet.ownership import OwnershipReader
from deviceplugin.kubelet.pod_resources import KubeletPods
from deviceplugin.kubelet.registrar import KubeletSide, Registrar
from deviceplugin.node.bindings import Bindings
from deviceplugin.node.cdi_folders import CdiFolders
from deviceplugin.node.cdi_support import Injection
from deviceplugin.node.files import NodeFiles
from deviceplugin.node.gpu_devices import DeviceFinder
from deviceplugin.node.kind import refuse_unfit_node
from deviceplugin.node.load import LoadMemory, ask_once, keep_load, policy_now
from deviceplugin.node.prestart import NodeCheck
from deviceplugin.node.state_file import StateFile
from deviceplugin.reconciler import Reconciler, ReconcilerParts
from deviceplugin.reporting.log import write_log
from deviceplugin.reporting.metrics import Counts, NodeCollector
from deviceplugin.reporting.node_reports import Cluster, KubernetesCluster
from deviceplugin.settings import Settings

log = logging.getLogger(__name__)
_END_SECONDS = 3.0
"""How long a thread may take to end."""
_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_DRAINED, _FOREIGN = "drained", "others"
_AHEAD_SECONDS = 5.0
"""How old the knowledge of a spare may be."""


class Plugin:
    """One plugin with all its parts; `run` returns when `stop` is set."""

    def __init__(
        self, settings: Settings, library: GpuLibrary, cluster: Cluster | None = None, listener: Tell | None = None
    ) -> None:
        self.settings = settings
        self.has_failed = False
        self._library, self._cluster, self._listener = library, cluster, listener
        self._is_serving = self._is_prepared = False
        self.registry = CollectorRegistry()
        self._counts = Counts(self.registry)
        self.publisher = Publisher()
        self.memory = LoadMemory(fresh_seconds=settings.times.load_fresh)
        self.monitor = Monitor(library, self.publisher, settings.rules, settings.times, self.tell)
        self._drained = StateFile(settings.layout.root / _DRAINED)
        self._injection = Injection(settings.inject, settings.layout.root, cluster)
        self.files = NodeFiles(settings.layout, hook_source=settings.hook_file, uses_cdi=False)
        self._cdi_folders = CdiFolders(settings.static_cdi_folder, settings.layout.cdi)
        self.devices = DeviceFinder(
            self._cdi_folders,
            settings.layout.root,
            wanted=settings.devices,
            inventory=lambda: self.publisher.device_list.inventory,
            takes_cdi=lambda: self.files.uses_cdi,
            why_unread=lambda: why_unread(find_mounted_node()),
            tell=self.tell,
        )
        self.ownership_reader = OwnershipReader(
            kubelet=KubeletPods(settings.pod_resources_socket, names.RESOURCE),
            checkpoint=settings.kubelet_folder / FILE_NAME,
            resource=names.RESOURCE,
            state_file=StateFile(settings.layout.root / _FOREIGN),
            tell_foreign=self.monitor.tell_foreign,
            grace=settings.times.others,
        )
        self.reconciler = Reconciler(self._reconciler_parts(cluster))
        self.registry.register(
            NodeCollector(
                self.publisher,
                lambda: self.reconciler.ownership,
                lambda: self.memory.fresh() is not None,
                lambda: self.ownership_reader.answers,
                cluster.dropped_events if cluster else None,
            )
        )

    def tell(self, event: PluginEvent) -> None:
        """Report an event to the log, the metrics, the Node's events and the reconciler; a spare reports nothing."""
        if not self._is_serving:
            return
        write_log(event)
        self._counts.count(event)
        node_event = node_event_of(event)
        if node_event is not None and self._cluster is not None:
            self._cluster.tell(node_event)
        if isinstance(event, Allocated | DevicesFound):
            self.reconciler.wake()
        if isinstance(event, CallRefused) and event.refusal.code == SAME_GPU:
            self.reconciler.note_refused_size(event.size)
        if self._listener is not None:
            self._listener(event)

    def look_ahead(self) -> None:
        """Find out what a spare needs before its turn; read only, and change nothing on the node."""
        self._learn_drained()
        self.monitor.keep_up()
        self.ownership_reader.look_for_foreign()

    def run(self, stop: threading.Event) -> None:
        """Prepare the node, then serve the kubelet; the health pages say from the start what the plugin waits for."""
        self._is_serving = True
        with self._served():
            self._prepare(stop)
            registrar = Registrar(self._kubelet_side(), self._parts(), self.tell)
            with contextlib.closing(registrar):
                registrar.begin()  # the kubelet fails pods until it knows us, so the threads start later
                with self._in_threads(stop):
                    registrar.run(stop)

    def _prepare(self, stop: threading.Event) -> None:
        refuse_unfit_node(self.settings.hook_file)
        # not earlier: another worker may have found out while we were a spare
        self.files.uses_cdi = self._injection.decide()
        self.files.prepare()
        self._learn_drained()  # before the first list is sent
        self._scan_first(stop)
        self.devices.now()  # says it before the first container
        self.reconciler.repair(Ownership())  # from the folders alone, since containers may start before the first look
        self.ownership_reader.look_for_foreign()
        self._is_prepared = True

    def why_not_healthy(self) -> str:
        """Return a sentence, or an empty text while all is well."""
        if not self._is_prepared:
            return f"The node is not prepared yet. {self._library.tell()}"
        if self._library.needs_new_container():  # the kubelet makes one when its probe fails
            return self._library.tell()
        return f"No GPU gets new containers: {health.STUCK}." if self.monitor.is_stuck else ""

    def _what_is_well(self) -> str:
        """Return what probes print.  A node whose devices are refused is well: a restart would not help it."""
        return f"The node is prepared, and GPUs are watched. {self._library.tell()} {self.devices.now().sentence()}"

    @contextlib.contextmanager
    def _served(self) -> Iterator[None]:
        """Serve metrics on the port for everyone, and health for probes on both places."""
        health = health_page(self.why_not_healthy, self._what_is_well)
        port, path = self.settings.metrics_port, self.settings.health_socket
        with contextlib.ExitStack() as ending:
            if port is not None:
                listener = _listen(port, lambda: listen_on_port(port), "--metrics-port")
                log.info("metrics on port %d", listener.getsockname()[1])
                _serve(listener, {"/metrics": self._metrics_page, HEALTHZ: health}, ending)
            if path is not None:
                _serve(_listen(path, lambda: listen_on_path(path), "--health-socket"), {HEALTHZ: health}, ending)
            yield

    def _metrics_page(self, accept: str) -> Answer:
        encode, content_type = choose_encoder(accept)
        return Answer(200, content_type, encode(self.registry))

    @contextlib.contextmanager
    def _in_threads(self, stop: threading.Event) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._run_task, args=(task, stop), name=name, daemon=True)
            for name, task in self._tasks(stop)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            self.reconciler.end()
            if self._cluster is not None:
                self._cluster.stop()
            for thread in threads:
                thread.join(timeout=_END_SECONDS)

    def _run_task(self, task: Callable[[], None], stop: threading.Event) -> None:
        """Run one part.  A part that fails ends the plugin: half a plugin would look alive and be blind."""
        try:
            task()
        except Exception:
            log.exception("%s failed: the plugin ends and is started again", threading.current_thread().name)
            self.has_failed = True
            stop.set()

    def _tasks(self, stop: threading.Event) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("gpus", partial(self.monitor.run, stop)),
            ("guard", partial(self.monitor.guard, stop)),
            ("load", partial(keep_load, self.settings.control_socket, self.memory, self._on_load, stop)),
            ("reconciler", partial(self.reconciler.run, stop)),
            ("cdi", partial(self._cdi_folders.follow, self._look_at_devices, stop.wait)),
            ("injection", partial(self._injection.keep_asking, self._on_injection, stop)),
            *([("events", self._cluster.tell_events)] if self._cluster is not None else []),
        ]

    def _look_at_devices(self) -> None:
        self.devices.now()

    def _scan_first(self, stop: threading.Event) -> None:
        """Scan, and wait for the driver: a node may start us before it."""
        if self.monitor.has_scanned:  # as a spare, some seconds ago
            self.monitor.keep_up()
            return
        said = ""
        while not stop.is_set():
            try:
                inventory = self.monitor.scan()
            except NvmlUnavailable as error:
                if str(error) != said:
                    log.warning("%s Trying again every %g s.", error, self.settings.times.check)
                said = str(error)
                stop.wait(self.settings.times.check)
            else:
                log.info("%d GPUs are shared, %d are not", len(inventory.shared), len(inventory.refused))
                return

    def _learn_drained(self) -> None:
        """Ask the scheduler which GPUs are drained; where it is away, use the state file of its last answer."""
        self.memory.believe_drained(frozenset(self._drained.read().split()))
        ask_once(self.settings.control_socket, self.memory)
        self.monitor.tell_drained(self.memory.drained())

    def _on_load(self) -> None:
        drained = self.memory.drained()
        self.monitor.tell_drained(drained)
        self._drained.write("".join(f"{uuid}\n" for uuid in sorted(drained)))

    def _on_injection(self, uses_cdi: bool) -> None:
        """Write the allocations again where the node's runtime was changed since the last start."""
        if uses_cdi != self.files.uses_cdi:
            log.warning("containers get their parts by %s from now on", "CDI" if uses_cdi else "mounts")
            self.files.uses_cdi = uses_cdi
            self.reconciler.repair_again()

    def _kubelet_side(self) -> KubeletSide:
        folder = self.settings.kubelet_folder
        return KubeletSide(folder=folder, socket=folder / PurePath(paths.KUBELET_SOCKET).name, resource=names.RESOURCE)

    def _parts(self) -> Parts:
        return Parts(
            publisher=self.publisher,
            files=self.files,
            tell=self.tell,
            bindings=Bindings(
                files=self.files,
                devices=self.devices.now,
                ask_kubelet=ask_checkpoint(self.settings.kubelet_folder / FILE_NAME, names.RESOURCE),
                tell=self.tell,
            ),
            start_check=NodeCheck(self.files, self.memory.scheduler_answers, self.tell),
            policy=lambda: policy_now(self.memory, self.settings.strategy, self.settings.weights),
            max_per_container=self.settings.max_per_container,
        )

    def _reconciler_parts(self, cluster: Cluster | None) -> ReconcilerParts:
        return ReconcilerParts(
            publisher=self.publisher,
            files=self.files,
            ownership_reader=self.ownership_reader,
            times=self.settings.times,
            cluster=cluster,
            devices=lambda: self.devices.now().source,
        )


def _listen(place: int | Path, listen: Callable[[], socket.socket], flag: str) -> socket.socket:
    try:
        return listen()
    except OSError as error:
        raise BadSetting(f"{place} cannot be listened on: {error}. Give {flag} another place, or off.") from error


def _serve(listener: socket.socket, pages: Mapping[str, Page], ending: contextlib.ExitStack) -> None:
    server = Server(listener, pages)
    server.start()
    ending.callback(server.close)


def stop_when_told() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; call this before any other thread is made.

    Later threads then do not receive these signals.  A thread waits for them.  A handler would run in the main thread,
    and setting an event in the middle of waiting for that same event locks up for ever.
    """
    stop = threading.Event()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def wait() -> None:
        signal.sigwait(_SIGNALS)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return stop


def serve(settings: Settings, is_turn: Callable[[float], bool] = lambda _: True) -> int:
    """Wait for our turn while looking ahead, then run until SIGTERM or SIGINT."""
    stop = stop_when_told()
    cluster = KubernetesCluster(settings.node_name, settings.kubeconfig) if settings.node_name else None
    plugin, wait = Plugin(settings, Nvml(settings.driver_root), cluster), 0.0
    while not is_turn(wait):
        if stop.is_set():
            return 0
        plugin.look_ahead()
        wait = _AHEAD_SECONDS
    plugin.run(stop)
    return 1 if plugin.has_failed else 0

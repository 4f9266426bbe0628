"""The program `serve`: settings, certificate, namespaces, metrics and the app, put together and run under gunicorn.

The rule it owns: one worker process a replica.  Reviews are short and replicas are many, so the counters and the watch
of namespaces have one place.  Ports are bound here, before gunicorn, so that a port in use gets a clear error.
"""

import errno
import gc
import logging
import os
import resource
import socket
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import gevent
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from prometheus_client.exposition import choose_encoder

from adapters.pages.request import Answer as Page
from adapters.pages.server import Limits, Server
from webhook import VERSION
from webhook.admission.review import Answer
from webhook.errors import StartError, WebhookError
from webhook.namespaces.sources import Namespaces, source_of
from webhook.serving.app import Service, create_app
from webhook.serving.drain import DrainFlag
from webhook.serving.logs import DecisionLog
from webhook.serving.metrics import Metrics
from webhook.serving.tls import LiveTls
from webhook.serving.worker import Worker
from webhook.settings import CertificateFrom, Settings, describe

if TYPE_CHECKING:
    from webhook.certs.serving import KeptPair

_log = logging.getLogger(__name__)
_BACKLOG = 2048
_LOG_SECONDS = 0.05
"""The line of a decision waits so long for other lines, to be written together with them."""
_METRICS_LIMITS = Limits(safe=1.0)
"""Silent clients come at 256 a second at most, because they share the processor with the reviews."""
_GC_THRESHOLDS = (50_000, 20, 50)
"""A review makes thousands of objects and no cycles.  Python's defaults would search each object several times."""


class Bookkeeper:
    """The ledger of reviews: count each and write its line."""

    def __init__(self, metrics: Metrics, log: DecisionLog) -> None:
        self._metrics, self._log = metrics, log

    def record(self, path: str, result: Answer | WebhookError, *, seconds: float, bytes_in: int) -> None:
        self._metrics.count(path, result, seconds=seconds, bytes_in=bytes_in)
        self._log.write(path, result, seconds=seconds, now=time.time())


class Process:
    """The parts that master and worker share; they are made before the fork."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.drain = DrainFlag()
        self._kept: KeptPair | None = None
        self.tls = self._find_certificate(settings)
        self.listener = bind(settings.host, settings.port, "port")
        self.metrics_listener = bind(settings.host, settings.metrics_port, "metrics-port")
        self.metrics = Metrics()
        self.log = DecisionLog(settings.log_format, sys.stderr, later=partial(gevent.spawn_later, _LOG_SECONDS))
        self.namespaces: Namespaces = source_of(settings)
        self.service = Service(
            namespaces=self.namespaces,
            ledger=Bookkeeper(self.metrics, self.log),
            volumes=settings.volumes.in_cluster(settings.default_pod_security),
            most_in_flight=settings.in_flight,
            why_unready=self._why_unready,
        )

    def _find_certificate(self, settings: Settings) -> LiveTls:
        """Return the pair of the files, loaded; or the one of the cluster's Secret, which may not exist yet."""
        if settings.certificate_from is CertificateFrom.FILES:
            tls = LiveTls.of(settings.cert, settings.key)
            tls.require()
            return tls
        from webhook.certs import serving  # the import takes a second, so only where it is needed

        self._kept = serving.prepare(settings.kubeconfig)
        return LiveTls.of(self._kept.certificate, self._kept.key)

    def _why_unready(self) -> str:
        if self.drain.is_up:
            return "going down"
        if not self.tls.serves:
            return self.tls.problem
        return self.namespaces.why_unready()

    def start_worker(self) -> Service:
        """Start the work beside the reviews: certificate, watch of namespaces, port of the metrics."""
        self.metrics.watch("in_flight", "Reviews being answered", lambda: self.service.in_flight)
        self.metrics.watch(
            "certificate_not_after_seconds", "Unix time at which the served certificate ends; 0: none", self._not_after
        )
        self.metrics.watch(
            "namespace_cache_age_seconds", "Since namespaces were known fresh", self.namespaces.age_seconds
        )
        if self._kept is not None:
            self._kept.start()
        self.namespaces.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        pages = {"/metrics": self._metrics_page}
        Server(self.metrics_listener, pages, limits=_METRICS_LIMITS).start()  # its threads are greenlets here
        return self.service

    def _metrics_page(self, accept: str) -> Page:
        encode, content_type = choose_encoder(accept)
        return Page(200, content_type, encode(self.metrics.registry))

    def _not_after(self) -> float:
        return self.tls.expires.timestamp() if self.tls.expires else 0.0


_ANY = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


def bind(host: str, port: int, flag: str) -> socket.socket:
    """Return a listening socket; raise StartError where the port or address cannot be used."""
    address = _ANY if host == "any" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if address == "::":
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"port {port} is in use by another program. Stop that one, or choose another port with --{flag}"
                f" (--{flag} 0 takes a free one)."
            ) from None
        raise StartError(
            f"{host} port {port} cannot be listened on ({error.strerror or error})."
            f" Choose another with --host and --{flag}."
        ) from None
    return listener


class PatientArbiter(Arbiter):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's master, which serves on after SIGTERM until endpoints and load balancers have dropped this replica."""

    _ends_at: float | None = None

    def handle_term(self) -> None:
        if self._ends_at is None:
            process = self.app.process
            process.drain.set()
            self._ends_at = time.monotonic() + process.settings.drain_seconds

    def manage_workers(self) -> None:
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            raise StopIteration
        super().manage_workers()


class GunicornApplication(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn with its settings; there are no others."""

    def __init__(self, process: Process) -> None:
        self.process = process
        super().__init__()

    def load_config(self) -> None:
        settings = self.process.settings
        for name, value in self._options(settings).items():
            self.cfg.set(name, value)

    def _options(self, settings: Settings) -> dict[str, Any]:
        return {
            "bind": f"fd://{self.process.listener.detach()}",
            "worker_class": Worker,
            "workers": 1,
            "worker_connections": settings.connections,
            "keepalive": settings.idle_seconds,
            "graceful_timeout": settings.stop_seconds,
            "timeout": 60,
            # the worker has its own context; this only tells gunicorn to use TLS, and the file must exist
            "certfile": settings.cert or os.devnull,
            "keyfile": settings.key or os.devnull,
            "do_handshake_on_connect": True,  # the worker has done it, with a deadline
            "control_socket_disable": True,
            "worker_tmp_dir": "/dev/shm",
            "loglevel": "warning",
            "max_requests": 0,  # recycling resets connections
            "proc_name": "nvshare-webhook",
            # No proxy stands before the webhook and no header of one is believed, so no address is looked up either.
            "forwarded_allow_ips": "*",
            "forwarder_headers": "",
            "secure_scheme_headers": {},
        }

    def load(self) -> Any:
        return create_app(self.process.service)

    def run(self) -> None:
        PatientArbiter(self).run()


def serve(settings: Settings) -> None:
    """Serve until SIGTERM."""
    _raise_descriptor_limit(settings.connections)
    process = Process(settings)
    address, port = process.listener.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    metrics_port = process.metrics_listener.getsockname()[1]
    _log.info("nvshare-webhook %s with %s", VERSION, describe(settings))
    _log.info("serving https://%s:%s, metrics on http://%s:%s/metrics", host, port, host, metrics_port)
    GunicornApplication(process).run()


def _raise_descriptor_limit(connections: int) -> None:
    wanted = connections + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard > 0 else wanted, hard))

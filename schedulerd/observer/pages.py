"""HTTP: `/metrics` and `/healthz`, which one silent connection never stops.

A thread a request, a bounded number of them, each with a time limit on its socket.  May import `exposition`.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from socketserver import TCPServer
from typing import Any

from schedulerd.errors import Unusable
from schedulerd.observer.exposition import CONTENT_TYPE

log = logging.getLogger(__name__)

_SILENCE_SECONDS = 5
_MOST_REQUESTS = 16
_LINES_AT_ONCE = 512


class Pages(ThreadingHTTPServer):
    """The server; `metrics` gives the page's lines, `healthy` says why not, or nothing, `ailment` what it lacks."""

    daemon_threads = True
    request_queue_size = 64
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(
        self,
        port: int,
        metrics: Callable[[], Iterator[str]],
        healthy: Callable[[], str],
        ailment: Callable[[], str] = lambda: "",
    ) -> None:
        self.metrics, self.healthy, self.ailment = metrics, healthy, ailment
        self._free = threading.Semaphore(_MOST_REQUESTS)
        try:
            super().__init__(("", port), _Answer)
        except OSError as error:
            raise Unusable(
                f"cannot serve on port {port}: {error.strerror}. Choose another with --metrics-port."
            ) from None

    def server_bind(self) -> None:
        """On every address, of IPv4 and IPv6; DNS is not asked for this machine's name, which may take ten seconds."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """One more request, unless there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the request's own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """A client that goes away is nobody's error."""
        log.debug("a request from %s broke off", client_address, exc_info=True)


class _Answer(BaseHTTPRequestHandler):
    timeout = _SILENCE_SECONDS
    server: Pages

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._begin(200, CONTENT_TYPE)
            page = self.server.metrics()
            while lines := list(islice(page, _LINES_AT_ONCE)):
                self.wfile.write(("\n".join(lines) + "\n").encode())
        elif self.path == "/healthz":
            reason = self.server.healthy()
            self._begin(503 if reason else 200, "text/plain; charset=utf-8")
            self.wfile.write(f"{reason or self.server.ailment() or 'ok'}\n".encode())
        else:
            self._begin(404, "text/plain; charset=utf-8")
            self.wfile.write(b"there are /metrics and /healthz\n")

    def _begin(self, code: int, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug(format, *arguments)

"""HTTP: `/metrics` and `/healthz`, on IPv4 and IPv6, which silent connections never stop.

Owns how they are served: a thread a request, a bounded number of them, each with a time limit on its socket.  What the
pages say is asked for.  May import nothing of ours.
"""

import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

log = logging.getLogger(__name__)
_SILENCE_SECONDS = 5
_MOST_REQUESTS = 16
_PLAIN = "text/plain; charset=utf-8"


class Pages(ThreadingHTTPServer):
    """The server; `healthy` says why not, or nothing.  Raises OSError where the port cannot be had."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, registry: CollectorRegistry, healthy: Callable[[], str]) -> None:
        self.registry, self.healthy = registry, healthy
        self._free = threading.Semaphore(_MOST_REQUESTS)
        has_both = socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if has_both else socket.AF_INET
        super().__init__(("::" if has_both else "0.0.0.0", port), _Answer)

    def server_bind(self) -> None:
        """Without asking DNS for this machine's name: on a node without DNS that takes ten seconds."""
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
        code, kind, page = self._page(self.path.partition("?")[0])
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def _page(self, path: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            return 200, kind, encode(self.server.registry)
        if path == "/healthz":
            reason = self.server.healthy()
            return (
                503 if reason else 200,
                _PLAIN,
                f"{reason or 'The node is prepared, and GPUs are watched.'}\n".encode(),
            )
        return 404, _PLAIN, b"There are /metrics and /healthz.\n"

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug(format, *arguments)


def serve_pages(port: int, registry: CollectorRegistry, healthy: Callable[[], str]) -> Callable[[], None]:
    """Serves on every address; gives back how to end it."""
    pages = Pages(port, registry, healthy)
    thread = threading.Thread(target=pages.serve_forever, name="metrics", daemon=True)
    thread.start()
    log.info("metrics on port %d", pages.server_port)

    def end() -> None:
        pages.shutdown()
        pages.server_close()
        thread.join(timeout=2)

    return end

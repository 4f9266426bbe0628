"""A small replica of the webhook: it serves TLS from `keep` and allows every pod."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from webhook.certs.cluster import Cluster
from webhook.certs.keeper import into_folder, keep


def own_address() -> str:
    """Return an address of this machine that is not loopback, since an EndpointSlice takes no other.

    Nothing is sent.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


class _Allow(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        uid = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]["uid"]
        answer = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": True},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    accepted = 0
    context: ssl.SSLContext

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self.accepted += 1
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, *_: object) -> None:
        """Ignore a client that goes away in the middle."""


class Replica:
    """A server, and the keeper of its certificate."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._folder = folder
        self._write = into_folder(folder)
        self.ready = threading.Event()
        self.deliveries = 0
        self.server = _Server((own_address(), 0), _Allow)
        self.server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=keep, args=(cluster, self._deliver, self._stop), daemon=True),
        ]

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.server.shutdown()
        self.server.server_close()
        self._threads[1].join(30)

    def _deliver(self, certificate: bytes, key: bytes) -> None:
        self._write(certificate, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # one that serves has no key while its pair is replaced
        context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
        self.server.context = context
        self.deliveries += 1
        self.ready.set()


@contextmanager
def replicas(clusters: list[Cluster], folder: Path) -> Iterator[list[Replica]]:
    """Run one replica for each view of the cluster."""
    running = [Replica(cluster, folder / f"replica-{number}") for number, cluster in enumerate(clusters)]
    for replica in running:
        replica.start()
    try:
        yield running
    finally:
        for replica in running:
            replica.stop()

"""Pods created through the real API server at a steady rate and in bursts; each answer is kept.

A burst is larger than the 25 idle connections that an API server keeps to a webhook, so that it opens fresh ones: a
steady rate alone would hide a wrong certificate.
"""

import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import urllib3
import yaml

from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.webhook.certs.scene import vgpu_pod

STEADY = 40
"""A second, each on a connection of its own to the API server."""
BURST = 60
BURST_SECONDS = 0.5
_MOST_WAITING = 3 * BURST
_CREATED = 201


class Load:
    """Creates pods (dry run) until stopped."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._url = f"{plane.url}/api/v1/namespaces/{namespace}/pods?dryRun=All"
        self._body = json.dumps(yaml.safe_load(vgpu_pod())).encode()
        self._tls = _client_tls(plane.kubeconfig)
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(BURST + 8)
        self._kept = urllib3.PoolManager(maxsize=BURST + 8, ssl_context=self._tls, retries=False, timeout=30)
        self._sent: list[Future[None]] = []
        self.answers: Counter[int] = Counter()
        self.refusals: list[str] = []
        self._lock = threading.Lock()

    def run(self) -> None:
        began, sent, bursts = time.monotonic(), 0, 0
        while not self._stop.is_set():
            passed = time.monotonic() - began
            while sent < passed * STEADY:
                self._submit(fresh=True)
                sent += 1
            if passed >= bursts * BURST_SECONDS:
                bursts += 1
                for _ in range(BURST):
                    self._submit(fresh=False)
            self._stop.wait(0.01)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def stop(self) -> None:
        self._stop.set()

    @property
    def total(self) -> int:
        return self.answers.total()

    def _submit(self, *, fresh: bool) -> None:
        """Submit a pod unless too many wait on a busy machine: a heap of waiting requests shows nothing."""
        if len(self._sent) >= _MOST_WAITING:
            self._sent = [future for future in self._sent if not future.done()]
        if len(self._sent) < _MOST_WAITING:
            self._sent.append(self._pool.submit(self._create, fresh))

    def _create(self, fresh: bool) -> None:
        try:
            try:
                status, said = self._post(fresh)
            except urllib3.exceptions.SSLError:  # between this client and the API server: no pod was sent yet
                status, said = self._post(fresh)
        except urllib3.exceptions.HTTPError as error:
            status, said = 0, repr(error)
        with self._lock:
            self.answers[status] += 1
            if status != _CREATED:
                self.refusals.append(said)

    def _post(self, fresh: bool) -> tuple[int, str]:
        headers = {"Content-Type": "application/json"}
        if not fresh:
            answer = self._kept.request("POST", self._url, body=self._body, headers=headers)
            return answer.status, answer.data.decode()[:300]
        with urllib3.PoolManager(ssl_context=self._tls, retries=False, timeout=30) as own:
            answer = own.request("POST", self._url, body=self._body, headers={**headers, "Connection": "close"})
            return answer.status, answer.data.decode()[:300]


def _client_tls(kubeconfig: Path) -> ssl.SSLContext:
    config = yaml.safe_load(kubeconfig.read_text())
    user = config["users"][0]["user"]
    context = ssl.create_default_context(cafile=config["clusters"][0]["cluster"]["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context


@contextmanager
def under_load(plane: ControlPlane, namespace: str) -> Iterator[Load]:
    """Load while the block runs; every answer is in when it ends."""
    load = Load(plane, namespace)
    thread = threading.Thread(target=load.run, daemon=True)
    thread.start()
    try:
        yield load
    finally:
        load.stop()
        thread.join(60)


def rejections(plane: ControlPlane) -> float:
    """Return how many pods the API server counts as refused, by our webhooks or because it could not call them."""
    said = plane.kubectl("get", "--raw", "/metrics")
    lines = [line for line in said.splitlines() if line.startswith("apiserver_admission_webhook_rejection_count{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if "nvshare.com" in line)

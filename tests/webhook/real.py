"""The real API server with our policies and, where wanted, our webhook: what the tests on it have in common.

Starts `nvshare-webhook serve` as its users do, registers the generated configurations with its address, and creates
pods as raw JSON.
"""

import base64
import contextlib
import http.client
import json
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from testbed.cluster.kubernetes.control_plane import ControlPlane
from webhook.admission.json_fields import Json
from webhook.apiserver.validating_policies import validating_policies, webhook_configurations

_WAIT_SECONDS = 30.0
_LISTENING = "serving https://"


@dataclass
class Answer:
    """What the API server answered."""

    status: int
    body: Json
    warnings: list[str]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class ApiClient:
    """One keep-alive connection to the API server, as admin."""

    def __init__(self, plane: ControlPlane) -> None:
        pair = plane.authority.vouch_for("guard-admin", groups=("system:masters",))
        context = ssl.create_default_context(cafile=str(plane.authority.certificate))
        context.load_cert_chain(pair.certificate, pair.key)
        where = urlsplit(plane.url)
        assert where.hostname is not None
        self._connection = http.client.HTTPSConnection(where.hostname, where.port, context=context, timeout=60)

    def send(self, method: str, path: str, body: Json | None = None, *, kind: str = "application/json") -> Answer:
        data = json.dumps(body) if body is not None else None
        self._connection.request(method, path, data, {"Content-Type": kind, "Accept": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        warnings = [value for key, value in answer.getheaders() if key.lower() == "warning"]
        return Answer(answer.status, json.loads(content) if content else {}, warnings)

    def text(self, path: str) -> str:
        """Return the content of a page that is no JSON."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read().decode()

    def create_pod(self, namespace: str, pod: Json, *, dry_run: bool = True) -> Answer:
        suffix = "?dryRun=All" if dry_run else ""
        return self.send("POST", f"/api/v1/namespaces/{namespace}/pods{suffix}", pod)

    def close(self) -> None:
        self._connection.close()


@dataclass
class Server:
    """A running `nvshare-webhook serve`."""

    process: subprocess.Popen[str]
    url: str
    metrics_url: str
    lines: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def metrics(self) -> dict[str, float]:
        """Return every sample, by its name and labels as written."""
        where = urlsplit(self.metrics_url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)
        connection.request("GET", where.path)
        text = connection.getresponse().read().decode()
        connection.close()
        samples = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def reviews(self) -> int:
        """Return how many reviews it has answered."""
        found = self.metrics()
        return int(sum(value for name, value in found.items() if name.startswith("nvshare_webhook_reviews_total")))

    def serves(self, certificate: str) -> bool:
        """Tell whether a new connection gets this certificate."""
        return ssl.get_server_certificate(("127.0.0.1", self.port)).split() == certificate.split()

    def worker(self) -> int:
        """Return the process id of the worker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])


@contextmanager
def serving(cert: Path, key: Path, *arguments: str, log: Path | None = None) -> Iterator[Server]:
    """Run the server on free ports; its log is in `lines`, or in a file where it is long."""
    command = [sys.executable, "-m", "webhook", "serve", "--cert", str(cert), "--key", str(key)]
    ports = [] if "--port" in arguments else ["--port", "0"]
    command += ["--host", "127.0.0.1", *ports, "--metrics-port", "0", *arguments]
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(log.open("w")) if log else subprocess.PIPE
        process = subprocess.Popen(command, stderr=sink, text=True)
        stack.callback(_end, process)
        yield _started(process, log)


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _started(process: subprocess.Popen[str], log: Path | None) -> Server:
    lines: list[str] = []
    for line in process.stderr or _follow(log, process):
        lines.append(line)
        if _LISTENING in line:
            words = line.replace(",", " ").replace('"', " ").split()
            urls = [word for word in words if "://" in word]
            server = Server(process, urls[0], urls[1], lines)
            if process.stderr:
                threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True).start()
            _wait_ready(server)
            return server
    raise AssertionError(f"the webhook did not start: {''.join(lines)}")


def _follow(log: Path | None, process: subprocess.Popen[str]) -> Iterator[str]:
    assert log is not None
    with log.open() as file:
        while process.poll() is None:
            line = file.readline()
            if line:
                yield line
            else:
                time.sleep(0.05)


def _wait_ready(server: Server) -> None:
    context = ssl._create_unverified_context()
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        try:
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"the webhook did not get ready: {''.join(server.lines)}")


def registered(server: Server, bundle: bytes) -> list[Json]:
    """Return both webhook configurations, with the address of the server instead of a Service."""
    found = []
    for configuration in webhook_configurations():
        (webhook,) = configuration["webhooks"]
        path = webhook["clientConfig"]["service"]["path"]
        client = {"url": f"https://127.0.0.1:{server.port}{path}", "caBundle": base64.b64encode(bundle).decode()}
        found.append({**configuration, "webhooks": [{**webhook, "clientConfig": client}]})
    return found


@contextmanager
def installed(plane: ControlPlane, objects: Sequence[Json]) -> Iterator[None]:
    """Keep the objects in the cluster, and delete them afterwards."""
    plane.apply(*objects)
    try:
        yield
    finally:
        kinds = [f"{item['kind'].lower()}/{item['metadata']['name']}" for item in objects]
        plane.kubectl("delete", "--ignore-not-found", *kinds)


def wait_for_policies(plane: ControlPlane) -> None:
    """Wait until the API server applies the last policy: it warns of a CronJob whose pods would be refused."""
    client = ApiClient(plane)
    container: Json = {"name": "c", "image": "i", "resources": {"limits": {"nvshare.com/gpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
    probe: Json = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "probe"}, "spec": spec}
    until = time.monotonic() + _WAIT_SECONDS
    while not client.send("POST", "/apis/batch/v1/namespaces/default/cronjobs?dryRun=All", probe).warnings:
        assert time.monotonic() < until, "the policies do not come into force"
        time.sleep(0.2)
    client.close()


def all_policies() -> list[Any]:
    """Return the objects of `manifests/base/policies.yaml`."""
    return validating_policies()

"""Load for the benches and drills: a realistic review of about 6 KB, and connections that carry it."""

import concurrent.futures
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.fakes.pods import container, pod
from tests.webhook.cases import review_of
from tests.webhook.real import ApiClient
from webhook.admission.json_fields import Json


def realistic_pod(name: str = "trainer-0", vgpus: int | None = 1) -> Json:
    """Return a pod as a controller makes it: a sidecar, some thirty variables, probes, managed fields."""
    env: list[Json] = [{"name": f"SETTING_{index}", "value": f"value-of-{index}-{'x' * 24}"} for index in range(36)]
    env.append({"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}})
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "failureThreshold": 3,
    }
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "cache", "mountPath": "/home/user/.cache"}]
    made = pod(
        container("main", vgpus, env=env, volumeMounts=mounts, livenessProbe=probe, command=["python", "train.py"]),
        container("logger", None, env=env[:8], volumeMounts=mounts[:1]),
        name=name,
    )
    made["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]
    made["spec"]["tolerations"] = [{"key": f"team-{index}", "operator": "Exists"} for index in range(6)]
    fields: Json = {
        f"f:{key}": {".": {}, "f:value": {}} for key in ("image", "name", "resources", "env", "volumeMounts")
    }
    made["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Update", "fieldsV1": fields}] * 3
    made["metadata"]["labels"] = {"app": "trainer", "team": "research"}
    return made


def body(vgpus: int | None = 1) -> bytes:
    """Return the review of that pod."""
    return json.dumps(review_of(realistic_pod(vgpus=vgpus))).encode()


class Connection:
    """One keep-alive connection to a server that speaks TLS with this CA."""

    def __init__(self, port: int, authority: Path, *, host: str = "127.0.0.1") -> None:
        self._context = ssl.create_default_context(cafile=str(authority))
        self._http = http.client.HTTPSConnection(host, port, context=self._context, timeout=30)

    def post(self, data: bytes, path: str = "/mutate") -> tuple[int, bytes]:
        self._http.request("POST", path, data, {"Content-Type": "application/json"})
        answer = self._http.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._http.close()


def bursts(plane: Any, *, rounds: int, width: int = 64) -> Iterator[list[tuple[int, float]]]:
    """Yield for each round the status and seconds of every creation: all connected clients begin at one moment.

    An API server needs twice as long for the first hundred pods of its life, with a webhook or without.  So each client
    creates some pods before the rounds, one after the other.  New connections to the webhook in a burst are measured.
    """
    clients = [ApiClient(plane) for _ in range(width)]
    for client in clients * 4:
        client.create_pod("on", realistic_pod())
    gate = threading.Barrier(width)

    def create(client: ApiClient) -> tuple[int, float]:
        gate.wait()
        began = time.perf_counter()
        return client.create_pod("on", realistic_pod()).status, time.perf_counter() - began

    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        for _ in range(rounds):
            yield list(pool.map(create, clients))
    for client in clients:
        client.close()


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of the process and its children."""
    process = psutil.Process(pid)
    times = [item.cpu_times() for item in (process, *process.children(recursive=True))]
    return sum(item.user + item.system for item in times)


def cost_of_a_review(pid: int, connection: Connection, *, reviews: int, data: bytes) -> tuple[float, list[float]]:
    """Return the processor microseconds a review, and the seconds of each review."""
    for _ in range(200):
        connection.post(data)
    before = processor_seconds(pid)
    took = []
    for _ in range(reviews):
        began = time.perf_counter()
        status, _ = connection.post(data)
        took.append(time.perf_counter() - began)
        assert status == 200
    return (processor_seconds(pid) - before) / reviews * 1e6, took

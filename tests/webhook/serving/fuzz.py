"""Mutated reviews, by the million: wrong types at every place, deep and broken JSON, through TLS and gunicorn.

Requests are sent in batches over one keep-alive connection, so that the client costs less than the server.
"""

import json
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from tests.webhook.cases import review_of

BATCH = 32
_WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, "", "x", "\ud800", "a\nb", [], {}, [None], [[]], [{}], {"": None}, {"a": []},
    "1k", "-3", [1, "a"], {"name": 1}, "x" * 3000,
)  # fmt: skip
_ACCEPTED = frozenset((b"200", b"400", b"413", b"415"))


def base_review() -> dict[str, Any]:
    """Return a small review with every field that a rule reads."""
    container = {
        "name": "main",
        "image": "i",
        "resources": {"limits": {"nvshare.com/gpu": "2"}, "requests": {"nvshare.com/gpu": "2"}},
        "env": [{"name": "LD_PRELOAD", "value": "/a.so"}, {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}],
        "envFrom": [{"configMapRef": {"name": "c"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/data", "readOnly": True}],
        "securityContext": {"privileged": False, "capabilities": {"add": ["IPC_LOCK"]}},
    }
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        "containers": [container],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "0"}}}],
        "ephemeralContainers": [{"name": "e", "env": [{"name": "A", "value": "b"}]}],
        "volumes": [{"name": "v", "hostPath": {"path": "/data"}}],
        "affinity": {"nodeAffinity": required},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "os": {"name": "linux"},
        "nodeName": "",
        "runtimeClassName": "nvidia",
        "hostPID": False,
        "hostIPC": False,
        "resourceClaims": [],
    }
    annotations = {"nvshare.com/multi-gpu": "gang", "nvshare.com/memory": "1Gi", "nvshare.com/weight": "5"}
    metadata = {"name": "p", "generateName": "p-", "annotations": annotations, "labels": {"a": "b"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    review = review_of(pod)
    review["request"]["oldObject"] = {"spec": {"ephemeralContainers": [{"name": "e"}]}}
    return review


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place in the review."""
    if path:
        yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from _places(child, (*path, key))


class Mutator:
    """Mutated bodies, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._text = json.dumps(base_review())
        every = list(_places(base_review()))
        self._read_by_rules = [path for path in every if path[:2] == ("request", "object")]
        self._every = every
        self.touched_by_rules = 0

    def body(self) -> bytes:
        """Make one body: mostly with a wrong value at some place, sometimes broken or deep."""
        dice = self._random.random()
        if dice < 0.1:
            return self._broken()
        review = json.loads(self._text)
        for _ in range(1 if dice < 0.7 else 3):
            self._change(review)
        return json.dumps(review).encode()

    def _change(self, review: Any) -> None:
        path = self._random.choice(self._read_by_rules if self._random.random() < 0.8 else self._every)
        self.touched_by_rules += path[:2] == ("request", "object")
        holder = review
        for key in path[:-1]:
            holder = holder[key] if _has(holder, key) else None
        if _has(holder, path[-1]):
            if isinstance(holder, dict) and self._random.random() < 0.1:
                del holder[path[-1]]
            else:
                holder[path[-1]] = deepcopy(self._random.choice(_WRONG))  # later changes go into the copy

    def _broken(self) -> bytes:
        text = self._text.encode()
        place = self._random.randrange(len(text))
        kind = self._random.randrange(4)
        if kind == 0:
            return text[:place] or b"{"
        if kind == 1:
            return text[:place] + bytes([self._random.randrange(256)]) + text[place + 1 :]
        if kind == 2:
            return text[:place] + self._random.randbytes(3) + text[place:]
        depth = self._random.choice((50, 900, 5000))
        return self._text.replace('"labels": {"a": "b"}', '"x": ' + "[" * depth + "]" * depth).encode()


def _has(holder: Any, key: Any) -> bool:
    if isinstance(holder, dict):
        return key in holder
    return isinstance(holder, list) and isinstance(key, int) and key < len(holder)


class Pipeline:
    """A connection that sends many requests at once and reads their answers."""

    def __init__(self, port: int, authority: Path) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        raw = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket = context.wrap_socket(raw, server_hostname="127.0.0.1")
        self._answers = self._socket.makefile("rb")

    def ask(self, bodies: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Return the status and content of each answer."""
        self._socket.sendall(b"".join(_HEAD % len(body) + body for body in bodies))
        return [self._answer() for _ in bodies]

    def _answer(self) -> tuple[bytes, bytes]:
        status, length = self._answers.readline().split(b" ", 2)[1], 0
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            if line[:15].lower() == b"content-length:":
                length = int(line[15:])
        return status, self._answers.read(length)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


_HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def fuzz(port: int, authority: Path, *, mutations: int, seed: int) -> str:
    """Send that many mutated reviews; raise at the first answer that blames no fault of the client."""
    mutator, pipeline = Mutator(seed), Pipeline(port, authority)
    statuses: Counter[bytes] = Counter()
    for _ in range(mutations // BATCH):
        bodies = [mutator.body() for _ in range(BATCH)]
        for body, (status, content) in zip(bodies, pipeline.ask(bodies), strict=True):
            assert status in _ACCEPTED, (status, content[:500], body[:3000])
            statuses[status] += 1
    pipeline.close()
    assert mutator.touched_by_rules >= mutations // 10
    shown = ", ".join(f"{count} times {status.decode()}" for status, count in sorted(statuses.items()))
    return f"{shown}; {mutator.touched_by_rules} changes of fields that rules read"

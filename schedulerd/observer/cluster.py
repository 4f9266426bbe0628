"""The API server: this node's own pods, watched, and events about them.

Owns the life of the watch: list, follow, begin anew when it breaks, with a pause that grows.  Raw JSON is read, not the
client's models: they cost tens of megabytes for three fields.
May import `whose`, `pulse` and the kubernetes client.
"""

import contextlib
import json
import logging
import random
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kubernetes import client, config

from schedulerd.observer.pod_facts import Owner, PodSummary, summarise
from schedulerd.observer.watchdog import Pulse

log = logging.getLogger(__name__)

_WATCH_SECONDS = 120
_WATCH_SLACK = 10
"""A watch that says nothing for so much longer than it should last has lost its server."""
_TIMEOUT = 1.5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_STEADY = 10.0
"""A watch that ends sooner counts as broken, whatever it ended with; the pause after one that lived longer is short."""
_SAME_EVENT_SECONDS = 60.0


class Cluster:
    """What the API says of the node's pods."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.watching = False
        self.following = Pulse("the API has not been asked for this node's pods")
        self._pods: dict[tuple[str, str], PodSummary] = {}
        self._said: dict[tuple[str, str, str], float] = {}
        self._version = ""
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._stream: Any = None
        """The watch that is under way."""
        self._api = client.ApiClient(_configuration())
        self._core: Any = client.CoreV1Api(self._api)  # its types are those of models that we do not read

    def start(self) -> None:
        """Follow the pods from now on."""
        self._thread = threading.Thread(target=self._follow_for_ever, name="pods", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Follow them no more; returns when nothing is under way."""
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            with contextlib.suppress(Exception):  # it has ended meanwhile
                stream.shutdown()
        if self._thread is not None:
            self._thread.join(_TIMEOUT)

    def pod(self, owner: Owner, uid: str = "") -> PodSummary | None:
        """A pod that the watch has seen, or that the API tells of now; the uid, where it is known, rules out an older
        one of that name."""
        found = self._pods.get((owner.namespace, owner.pod))
        if found is not None and (found.uid == uid if uid else self.watching):
            return found
        try:
            answer = self._core.read_namespaced_pod(
                owner.pod, owner.namespace, _preload_content=False, _request_timeout=_TIMEOUT
            )
            return summarise(json.loads(answer.data))
        except Exception as error:  # noqa: BLE001  whatever the client raises, the container goes on with its defaults
            log.warning("the API says nothing of %s/%s: %s", owner.namespace, owner.pod, error)
            return None

    # ------------------------------------------------------------------ the watch

    def _follow_for_ever(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._list()
                self.watching = True
                while not self._stopping.is_set():
                    self._follow()
            except Exception as error:  # noqa: BLE001  a watch breaks in many ways; all are cured by beginning anew
                self.watching = False
                if self._stopping.is_set():
                    break
                if time.monotonic() - began > _STEADY:
                    pause = _FIRST_PAUSE
                log.warning("the watch on this node's pods broke: %s; again in %.0f s", error, pause)
                self._stopping.wait(pause * (0.5 + random.random()))
                pause = min(pause * 2, _LONGEST_PAUSE)
        self.watching = False

    def _list(self) -> None:
        answer = self._ask(limit=None)
        found = json.loads(answer.data)
        self._pods = {_name(pod): summarise(pod) for pod in found.get("items", ())}
        self._version = found["metadata"]["resourceVersion"]

    def _follow(self) -> None:
        """One watch; it ends by itself after some minutes, and the next goes on where it ended."""
        began = time.monotonic()
        for event in self._events():
            pod = event["object"]
            if event["type"] == "ERROR":
                raise ConnectionError(str(pod.get("message")))
            self._version = pod["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self._pods.pop(_name(pod), None)
            elif event["type"] in ("ADDED", "MODIFIED"):
                self._pods[_name(pod)] = summarise(pod)
        if time.monotonic() - began < _STEADY:
            raise ConnectionError(f"it ended by itself before {_STEADY:.0f} s were over")

    def _events(self) -> Iterator[Mapping[str, Any]]:
        answer = self._ask(
            watch=True,
            resource_version=self._version,
            timeout_seconds=_WATCH_SECONDS,
            allow_watch_bookmarks=True,
            _request_timeout=(5, _WATCH_SECONDS + _WATCH_SLACK),
        )
        rest = b""
        self._stream = answer
        with contextlib.closing(answer):
            for chunk in answer.stream(65536):
                self.following.beat()
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)

    def _ask(self, **options: Any) -> Any:
        self.following.beat()
        selector = f"spec.nodeName={self.node}"
        options = {key: value for key, value in options.items() if value is not None}
        return self._core.list_pod_for_all_namespaces(
            **{"field_selector": selector, "_preload_content": False, "_request_timeout": 10, **options}
        )

    # ------------------------------------------------------------------ events

    def tell(self, owner: Owner, *, reason: str, message: str) -> bool:
        """An event about a pod; the same one once a minute."""
        known = self._pods.get((owner.namespace, owner.pod))
        uid = known.uid if known else ""
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": owner.namespace, "name": owner.pod, "uid": uid}
        return self._tell(about, owner.namespace, reason=reason, message=message)

    def tell_node(self, *, reason: str, message: str) -> bool:
        """An event about this node; the same one once a minute."""
        about = {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": self.node}
        return self._tell(about, "default", reason=reason, message=message)

    def _tell(self, about: Mapping[str, str], namespace: str, *, reason: str, message: str) -> bool:
        key, now = (namespace, about["name"], reason), time.monotonic()
        if now - self._said.get(key, float("-inf")) < _SAME_EVENT_SECONDS:
            return False
        self._said = {one: at for one, at in self._said.items() if now - at < _SAME_EVENT_SECONDS} | {key: now}
        stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        event = {
            "metadata": {"generateName": f"{about['name'][:200]}.", "namespace": namespace},
            "involvedObject": dict(about),
            "reason": reason,
            "message": message[:1000],
            "type": "Warning",
            "source": {"component": "nvshare-schedulerd", "host": self.node},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            self._core.create_namespaced_event(namespace, event, _preload_content=False, _request_timeout=5)
        except Exception as error:  # noqa: BLE001  an event that cannot be told must not stop anything
            log.warning("cannot tell the cluster of %s: %s", reason, error)
            return False
        return True


def _name(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _configuration() -> Any:
    """Inside a pod, its service account; else the kubeconfig."""
    configuration = client.Configuration()
    loaders: Any = config
    try:
        loaders.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        loaders.load_kube_config(client_configuration=configuration)
    return configuration

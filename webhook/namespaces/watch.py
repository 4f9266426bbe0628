"""Namespaces of a cluster, kept fresh by a watch with the official client.

It resumes where it stopped; only when the API server has forgotten that place (410) does it list again.  A namespace it
has not seen, or one that the API server calls us for though it seems not opted in, is asked for at once.
May import the kubernetes client, `namespace_policy` and the room's errors.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import kubernetes.client
import kubernetes.config
import urllib3

from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import NamespacePolicy, read_namespace
from webhook.cluster_client import client_of, reason_of
from webhook.errors import MalformedObject, NamespaceUnknown, NotSynced

_log = logging.getLogger(__name__)
_WATCH_SECONDS = 30
"""The API server ends a watch after so long; a healthy cache is never older than this."""
_SILENCE_SECONDS = _WATCH_SECONDS + 15
_GET_SECONDS = 2.0
_GONE = 410
_FAULTS = (
    kubernetes.client.ApiException,
    kubernetes.config.ConfigException,
    urllib3.exceptions.HTTPError,
    OSError,
    MalformedObject,
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""The last line is what reading a strange answer raises, such as a proxy's: the watch outlives it."""
_RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)


class Gone(Exception):
    """The API server has forgotten the place to resume from."""


class NamespaceApi(Protocol):
    """What the watch needs of the API server."""

    def list(self) -> Json: ...
    def watch(self, resource_version: str) -> Iterator[Json]: ...
    def get(self, name: str) -> Json | None: ...


class ClusterApi:
    """The API server through the official client; objects stay raw JSON."""

    def __init__(self, client: kubernetes.client.ApiClient) -> None:
        self._core: Any = kubernetes.client.CoreV1Api(client)  # with _preload_content=False it gives raw answers

    def list(self) -> Json:
        answer = self._core.list_namespace(_preload_content=False, _request_timeout=_SILENCE_SECONDS)
        found: Json = json.loads(answer.data)
        return found

    def watch(self, resource_version: str) -> Iterator[Json]:
        answer = self._core.list_namespace(
            watch=True,
            resource_version=resource_version,
            allow_watch_bookmarks=True,
            timeout_seconds=_WATCH_SECONDS,
            _preload_content=False,
            _request_timeout=_SILENCE_SECONDS,
        )
        try:
            yield from map(json.loads, _lines(answer))
        finally:
            answer.close()

    def get(self, name: str) -> Json | None:
        try:
            answer = self._core.read_namespace(name, _preload_content=False, _request_timeout=_GET_SECONDS)
        except kubernetes.client.ApiException as error:
            if error.status == 404:
                return None
            raise
        found: Json = json.loads(answer.data)
        return found


def _lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)


class WatchedNamespaces:
    """The policies as of the last event."""

    def __init__(self, api: NamespaceApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._policies: dict[str, NamespacePolicy] = {}
        self._version = ""
        self._fresh_at: float | None = None
        self._stop = threading.Event()

    # ------------------------------------------------------------------------------------- for reviews
    def known(self, name: str) -> NamespacePolicy:
        policy = self._policies.get(name)
        if policy is None or policy.injection is None:
            raise NamespaceUnknown(name)
        return policy

    def policy_of(self, name: str) -> NamespacePolicy:
        try:
            return self.known(name)
        except NamespaceUnknown:
            return self._ask(name)

    def _ask(self, name: str) -> NamespacePolicy:
        try:
            raw = self._api.get(name)
        except _FAULTS as error:
            raise NotSynced(f"namespace {name[:253]!r} could not be read just now ({reason_of(error)})") from None
        return NamespacePolicy(name=name) if raw is None else self._learn(raw)

    def _learn(self, raw: Json) -> NamespacePolicy:
        policy = read_namespace(raw)
        self._policies[policy.name] = policy
        return policy

    def names(self) -> frozenset[str]:
        """The namespaces that are known."""
        return frozenset(self._policies)

    def why_unready(self) -> str:
        return "" if self._fresh_at is not None else "namespaces are not known yet"

    def age_seconds(self) -> float:
        return float("inf") if self._fresh_at is None else self._clock() - self._fresh_at

    # ------------------------------------------------------------------------------------- the watch
    def start(self) -> None:
        threading.Thread(target=self.run, name="namespaces", daemon=True).start()

    def stop(self) -> None:
        """Ends the watch at its next event or pause."""
        self._stop.set()

    def run(self) -> None:
        """Lists, watches, resumes; for ever."""
        failures = 0
        while not self._stop.is_set():
            try:
                self.follow()
                failures = 0
            except Gone:
                self.forget()
            except _FAULTS as error:
                self._forget_if_gone(error)
                _log.warning("the namespace watch broke off and resumes: %s", reason_of(error))
                self._stop.wait(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    def follow(self) -> None:
        """One list, if there is no place to resume from, and one watch to its end."""
        if not self._version:
            self._replace_all(self._api.list())
        for event in self._api.watch(self._version):
            self._apply(event)
            if self._stop.is_set():
                return
        self._fresh_at = self._clock()

    def _replace_all(self, listed: Json) -> None:
        policies = map(read_namespace, listed["items"])
        self._policies = {policy.name: policy for policy in policies}
        self._version = listed["metadata"]["resourceVersion"]
        self._fresh_at = self._clock()

    def _apply(self, event: Json) -> None:
        kind, item = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            if item.get("code") == _GONE:
                raise Gone
            raise ValueError(str(item.get("message"))[:200])
        if kind in ("ADDED", "MODIFIED"):
            self._learn(item)
        elif kind == "DELETED":
            self._policies.pop(item["metadata"]["name"], None)
        self._version = item["metadata"]["resourceVersion"]
        self._fresh_at = self._clock()

    def _forget_if_gone(self, error: Exception) -> None:
        if getattr(error, "status", None) == _GONE:
            self.forget()

    def forget(self) -> None:
        """There is no place to resume from: the next look lists anew."""
        self._version = ""


def watch_cluster(kubeconfig: str) -> WatchedNamespaces:
    """The namespaces of the cluster that the kubeconfig, or the pod's own service account, leads to."""
    return WatchedNamespaces(ClusterApi(client_of(kubeconfig)))

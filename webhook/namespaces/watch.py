"""Namespaces of a cluster, kept fresh by a watch.

A namespace that the watch has not shown, or that the API server calls us for though it seems not opted in, is asked for
at once.
"""

import time
from collections.abc import Callable
from typing import Protocol

from adapters.errors import ApiError
from adapters.kubernetes.backoff import Backoff
from adapters.kubernetes.client import ApiServer, Seconds, connect, path_of
from adapters.kubernetes.watch import Api, Collection, Pace, Surroundings, Watch
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import NamespacePolicy, read_namespace
from webhook.errors import MalformedObject, NamespaceUnknown, NotSynced

_PATH = "/api/v1/namespaces"
_PACE = Pace(watch=30.0, backoff=Backoff(first=0.2, longest=5.0))
"""A healthy cache is never older than 30 s.  Replicas are few, so they may try again soon."""
_GET_SECONDS = 2.0
_STRANGE = (MalformedObject, ValueError, LookupError, TypeError, AttributeError)
"""What reading a strange answer raises, such as a proxy's."""


class NamespaceApi(Api, Protocol):
    """What the namespaces need of the API server."""

    def find(self, path: str, *, seconds: Seconds) -> Json | None: ...


class WatchedNamespaces:
    """The policies as of the last event."""

    def __init__(self, api: NamespaceApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._policies: dict[str, NamespacePolicy] = {}
        self._watch = Watch(api, Collection(_PATH), self, pace=_PACE, around=Surroundings(clock=clock))

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
            raw = self._api.find(path_of("/api/v1", "namespaces", name), seconds=_GET_SECONDS)
            return NamespacePolicy(name=name) if raw is None else self._learn(raw)
        except (ApiError, *_STRANGE) as error:
            raise NotSynced(f"namespace {name[:253]!r} could not be read just now ({error})") from None

    def _learn(self, raw: Json) -> NamespacePolicy:
        policy = read_namespace(raw)
        self._policies[policy.name] = policy
        return policy

    def names(self) -> frozenset[str]:
        """Return the names of the namespaces that are known."""
        return frozenset(self._policies)

    def why_unready(self) -> str:
        return "" if self.age_seconds() != float("inf") else "namespaces are not known yet"

    def age_seconds(self) -> float:
        return self._watch.age_seconds()

    # ------------------------------------------------------------------------------------- for the watch
    def start(self) -> None:
        self._watch.start()

    def stop(self) -> None:
        """End the watch."""
        self._watch.stop()

    def replace_all(self, items: list[Json]) -> None:
        self._policies = {policy.name: policy for policy in map(read_namespace, items)}

    def put(self, item: Json) -> None:
        self._learn(item)

    def remove(self, item: Json) -> None:
        self._policies.pop(item["metadata"]["name"], None)


def watch_cluster(kubeconfig: str) -> WatchedNamespaces:
    """Return the namespaces of the cluster that the kubeconfig, or the pod's own service account, leads to."""
    api: ApiServer = connect(kubeconfig)
    return WatchedNamespaces(api)

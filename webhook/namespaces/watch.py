"""The namespaces of a cluster, kept fresh by a watch.

The rule it owns: a review never waits for the watch.  The API server is asked at once for a namespace that the watch
has not shown yet.  It is asked too for one that seems not opted in: the API server calls the webhook for pods of
opted-in namespaces, so the watch is probably late.
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
from webhook.errors import MalformedObject, NotSynced

_PATH = "/api/v1/namespaces"
_PACE = Pace(watch=30.0, backoff=Backoff(first=0.2, longest=5.0))
"""A healthy cache is never older than 30 s.  Replicas are few, so they may try again soon."""
_GET_SECONDS = 2.0
_STRANGE = (MalformedObject, ValueError, LookupError, TypeError, AttributeError)
"""The errors that reading a strange answer raises, such as the page of a proxy."""


class NamespaceApi(Api, Protocol):
    """The calls of the API server that the namespaces need."""

    def find(self, path: str, *, seconds: Seconds) -> Json | None: ...


class WatchedNamespaces:
    """The policies as the last event left them."""

    def __init__(self, api: NamespaceApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._policies: dict[str, NamespacePolicy] = {}
        self._watch = Watch(api, Collection(_PATH), self, pace=_PACE, around=Surroundings(clock=clock))

    # ------------------------------------------------------------------------------------- for reviews
    def known(self, name: str) -> NamespacePolicy | None:
        """Return the policy of a namespace that is opted in as far as the watch has shown, else None."""
        policy = self._policies.get(name)
        return policy if policy is not None and policy.injection is not None else None

    def ask(self, name: str) -> NamespacePolicy:
        """Read the namespace from the API server; one that does not exist has not opted in."""
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

"""The API server, as the observer needs it: this node's own pods, watched, and events about them.

Of a pod only what is read is kept.
"""

import logging
from typing import Any

from adapters.errors import ApiError
from adapters.kubernetes.client import ApiServer, Json, connect, path_of
from adapters.kubernetes.events import About, Event, EventSink, node
from adapters.kubernetes.watch import Collection, Watch
from schedulerd.observer.pod_facts import Owner, PodSummary, summarise
from schedulerd.observer.watchdog import Pulse

log = logging.getLogger(__name__)

_GET_SECONDS = 1.5
_COMPONENT = "nvshare-schedulerd"


class Cluster:
    """What the API server says of the node's pods, and what it is told."""

    def __init__(self, node_name: str, api: ApiServer | None = None) -> None:
        self.node = node_name
        self.following = Pulse("the API has not been asked for this node's pods")
        self._api = api or connect()
        self._pods: dict[tuple[str, str], PodSummary] = {}
        pods = Collection("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node_name}"})
        self._watch = Watch(self._api, pods, self, beat=self.following.beat)
        self._events = EventSink(lambda: self._api, component=_COMPONENT, host=node_name)

    @property
    def watching(self) -> bool:
        """Whether the pods that are known are those of now."""
        return self._watch.is_following

    @property
    def dropped_events(self) -> int:
        """How many events were not told."""
        return self._events.dropped

    def start(self) -> None:
        """Follow the pods and tell events from now on."""
        self._watch.start()
        self._events.start()

    def stop(self) -> None:
        """Stop both; return when nothing is under way."""
        self._watch.stop()
        self._events.stop()

    def pod(self, owner: Owner, uid: str = "") -> PodSummary | None:
        """Return a pod that the watch has shown, or that the API server knows now.

        The uid, where it is known, rules out an older pod of that name.
        """
        found = self._pods.get((owner.namespace, owner.pod))
        if found is not None and (found.uid == uid if uid else self.watching):
            return found
        path = path_of("/api/v1", "namespaces", owner.namespace, "pods", owner.pod)
        try:
            return summarise(self._api.call("GET", path, seconds=_GET_SECONDS))
        except (ApiError, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("the API says nothing of %s/%s: %s", owner.namespace, owner.pod, error)
            return None  # the container goes on with its defaults

    # ------------------------------------------------------------------ for the watch

    def replace_all(self, items: list[Any]) -> None:
        self._pods = {_name(pod): summarise(pod) for pod in items}

    def put(self, item: Json) -> None:
        self._pods[_name(item)] = summarise(item)

    def remove(self, item: Json) -> None:
        self._pods.pop(_name(item), None)

    # ------------------------------------------------------------------ events

    def tell(self, owner: Owner, *, reason: str, message: str) -> None:
        """Tell an event about a pod; the same one of a container once a minute."""
        known = self._pods.get((owner.namespace, owner.pod))
        pod = About("Pod", owner.pod, owner.namespace, known.uid if known else "")
        self._events.tell(Event(pod, reason, message, topic=owner.container))

    def tell_node(self, *, reason: str, message: str, topic: str) -> None:
        """Tell an event about this node; the same one of a topic once a minute."""
        self._events.tell(Event(node(self.node), reason, message, topic=topic))


def _name(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]

"""Events for the cluster: sent in the background, counted, and never more than a bounded rate.

The rule: a caller never waits, and events that could not be sent are counted (`dropped`).  The same event again within
a minute is one event with a count.  The queue is pure; the sink is its thread.
"""

import logging
import random
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from adapters.errors import AdapterError, ApiError
from adapters.kubernetes.backoff import Backoff
from adapters.kubernetes.client import Json, Seconds, path_of

log = logging.getLogger(__name__)

SAME_SECONDS: Seconds = 60.0
"""The same event again is told so often at most, with its count."""
MAX_WAITING = 50
"""Different events that wait at once; the oldest gives way."""
BURST, PER_SECOND = 25.0, 0.5
"""Events at once, and later on."""
_MAX_MESSAGE = 1024
"""The API server takes no more."""
_LOOK_SECONDS: Seconds = 1.0
_BACKOFF = Backoff()
_CALL_SECONDS: Seconds = 5.0
_END_SECONDS: Seconds = 1.5


# ---------------------------------------------------------------------------------------------- values
@dataclass(frozen=True, slots=True)
class About:
    """The object that an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


def node(name: str) -> About:
    """Return a Node as the kubelet names it in its own events: the name is the uid."""
    return About("Node", name, uid=name)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    about: About
    reason: str
    message: str
    is_warning: bool = True
    topic: str | None = None
    """Events of one object, reason and topic are the same event, told with the newest message; by default the topic is
    the message."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        about, topic = self.about, self.message if self.topic is None else self.topic
        return about.kind, about.namespace, about.name, self.reason, topic


@dataclass(frozen=True, slots=True)
class Counted:
    """An event that happened so many times between two moments, in seconds since 1970."""

    event: Event
    times: int
    first_at: Seconds
    last_at: Seconds


# ---------------------------------------------------------------------------------------------- the queue: pure
Key = tuple[str, str, str, str, str]


@dataclass(slots=True)
class EventQueue:
    """Events that wait to be told."""

    waiting: OrderedDict[Key, Counted] = field(default_factory=OrderedDict)
    told_at: dict[Key, Seconds] = field(default_factory=dict)
    dropped: int = 0
    tokens: float = BURST
    filled_at: Seconds | None = None

    def add(self, one: Counted) -> None:
        """Count one more; the oldest is dropped where too many wait."""
        key = one.event.key
        before = self.waiting.get(key)
        self.waiting[key] = one if before is None else _both(before, one)
        self._make_room()

    def drop(self, one: Counted) -> None:
        """Count what is not told."""
        self.dropped += one.times

    def take(self, *, now: Seconds) -> Counted | None:
        """Take out the next event that may be told now."""
        self._refill(now)
        self.told_at = {key: at for key, at in self.told_at.items() if now - at < SAME_SECONDS}
        key = next((key for key in self.waiting if key not in self.told_at), None)
        if key is None or self.tokens < 1:
            return None
        self.tokens -= 1
        self.told_at[key] = now
        return self.waiting.pop(key)

    def give_back(self, one: Counted) -> None:
        """Let an event wait again that could not be told just now."""
        key = one.event.key
        self.told_at.pop(key, None)
        later = self.waiting.get(key)
        self.waiting[key] = one if later is None else _both(one, later)
        self.waiting.move_to_end(key, last=False)
        self._make_room()

    def _make_room(self) -> None:
        while len(self.waiting) > MAX_WAITING:
            self.drop(self.waiting.popitem(last=False)[1])

    def _refill(self, now: Seconds) -> None:
        passed = 0.0 if self.filled_at is None else max(0.0, now - self.filled_at)
        self.tokens, self.filled_at = min(BURST, self.tokens + passed * PER_SECOND), now


def _both(earlier: Counted, later: Counted) -> Counted:
    return Counted(later.event, earlier.times + later.times, earlier.first_at, later.last_at)


def body_of(one: Counted, *, component: str, host: str, suffix: str) -> Json:
    """Return the Event object of the API."""
    event, about = one.event, one.event.about
    involved = {"apiVersion": "v1", "kind": about.kind, "namespace": about.namespace, "name": about.name}
    return {
        "metadata": {"name": f"{about.name[:200]}.{suffix}", "namespace": about.namespace or "default"},
        "involvedObject": {key: text for key, text in (involved | {"uid": about.uid}).items() if text},
        "reason": event.reason,
        "message": event.message[:_MAX_MESSAGE],
        "type": "Warning" if event.is_warning else "Normal",
        "source": {"component": component, "host": host},
        "firstTimestamp": _stamp(one.first_at),
        "lastTimestamp": _stamp(one.last_at),
        "count": one.times,
    }


def _stamp(at: Seconds) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# ---------------------------------------------------------------------------------------------- the sink
class Api(Protocol):
    """What the sink needs of the API server."""

    def call(self, method: str, path: str, body: Json, *, seconds: Seconds) -> Json: ...


class EventSink:
    """Tells the cluster in a thread of its own."""

    def __init__(self, api: Callable[[], Api], *, component: str, host: str) -> None:
        self._api, self._component, self._host = api, component, host
        """The API server is asked for by the thread: to find it may take a while, and may fail."""
        self._queue, self._lock = EventQueue(), threading.Lock()
        self._news, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0

    @property
    def dropped(self) -> int:
        """How many events were not told."""
        return self._queue.dropped

    def tell(self, event: Event) -> None:
        """Count an event; it is told when its turn comes."""
        now = time.time()
        with self._lock:
            self._queue.add(Counted(event, 1, now, now))
        self._news.set()

    def start(self) -> None:
        """Begin to tell."""
        self._thread = threading.Thread(target=self.run, name="events", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Tell no more."""
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def run(self) -> None:
        """Tell what waits until `stop`."""
        while not self._stopping.is_set():
            with self._lock:
                one = self._queue.take(now=time.monotonic())
                is_empty = not self._queue.waiting
            if one is not None:
                self._try(one)
            else:
                self._news.wait(None if is_empty else _LOOK_SECONDS)
                self._news.clear()

    def _try(self, one: Counted) -> None:
        """Tell an event; where the API server is away it waits, and what is refused is dropped."""
        try:
            self._post(one)
            self._failures = 0
        except AdapterError as error:
            is_temporary = not isinstance(error, ApiError) or error.is_temporary
            with self._lock:
                (self._queue.give_back if is_temporary else self._queue.drop)(one)
            log.warning("cannot tell the cluster of %s: %s", one.event.reason, error)
            if is_temporary:
                self._failures += 1
                self._stopping.wait(_BACKOFF.pause(self._failures, random.random()))

    def _post(self, one: Counted) -> None:
        body = body_of(one, component=self._component, host=self._host, suffix=secrets.token_hex(8))
        path = path_of("/api/v1", "namespaces", body["metadata"]["namespace"], "events")
        self._api().call("POST", path, body, seconds=_CALL_SECONDS)

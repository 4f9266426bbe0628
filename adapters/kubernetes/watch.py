"""List and watch: a follower is told of every object of a collection, for ever, whatever the API server does.

What follows from the end of a watch is pure (`resume`): where the next one begins, and how many failures came in a row.
A watch goes on from its last version.  The collection is listed anew only when the server has forgotten that version
(410), when an answer could not be read, or when several tries from that version have failed.
"""

import contextlib
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Protocol

from adapters.errors import ApiError, Gone, Unreachable
from adapters.kubernetes.backoff import Backoff
from adapters.kubernetes.client import Json, Seconds, error_of

log = logging.getLogger(__name__)

STEADY: Seconds = 10.0
"""A watch that ends sooner counts as a failure, whatever it ended with."""
MAX_RESUMES = 5
"""So many failures in a row end the trust in the version: a restored etcd counts from a lower one."""
_LIST_SECONDS: Seconds = 45.0
_SLACK_SECONDS: Seconds = 10.0
"""A watch that is silent for so much longer than it should last has lost its server."""
_END_SECONDS: Seconds = 1.5


# ---------------------------------------------------------------------------------------------- what follows: pure
class End(Enum):
    """How a watch ended."""

    OVER = auto()
    """By itself, as it does after some time."""
    GONE = auto()
    """The API server has forgotten the version."""
    BROKEN = auto()
    """No answer, an error, or silence."""
    UNREADABLE = auto()
    """An answer, but not one of an API server."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next watch begins."""

    version: str = ""
    """Empty: with a list."""
    is_listed: bool = False
    """The version is a list's, and no watch has gone on from it yet."""
    failures: int = 0
    """In a row."""


def resume(place: Place, end: End, *, lived: Seconds) -> Place:
    """Return the place after the end of a round that lived so long."""
    if end is End.OVER and lived >= STEADY:
        return Place(place.version)
    if end is End.GONE and not place.is_listed:
        return Place()  # listed at once; only a server that forgets its own lists is asked more slowly
    failures = 1 + (0 if lived >= STEADY else place.failures)
    is_lost = end in (End.GONE, End.UNREADABLE) or failures > MAX_RESUMES
    return replace(place, version="" if is_lost else place.version, failures=failures)


# ---------------------------------------------------------------------------------------------- events of one watch
@dataclass(frozen=True, slots=True)
class Collection:
    """What is listed and watched."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    """Selectors."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch."""

    kind: str
    item: Json

    @property
    def version(self) -> str:
        return str(self.item["metadata"]["resourceVersion"])


class Stream(Protocol):
    """What a watch reads."""

    def lines(self) -> Iterator[bytes]: ...
    def shut_down(self) -> None: ...
    def close(self) -> None: ...


class Api(Protocol):
    """What a watch needs of the API server."""

    def call(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str], seconds: Seconds
    ) -> Json: ...

    def open(self, path: str, *, query: Mapping[str, str], silence: Seconds) -> Stream: ...


def open_watch(api: Api, collection: Collection, *, version: str = "", seconds: Seconds) -> Stream:
    """Begin a watch that the API server ends after `seconds`; without a version it begins with all there is."""
    options = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(1, round(seconds)))}
    place = {"resourceVersion": version} if version else {}
    return api.open(collection.path, query={**collection.query, **options, **place}, silence=seconds + _SLACK_SECONDS)


def events(stream: Stream) -> Iterator[Event]:
    """Yield a watch's events; one that says ERROR is raised."""
    for line in stream.lines():
        event = _event_in(line)
        if event.kind == "ERROR":
            raise error_of(int(event.item.get("code", 0)), json.dumps(event.item).encode(), "a watch")
        yield event


def _event_in(line: bytes) -> Event:
    try:
        event = json.loads(line)
        kind, item = event["type"], event["object"]
    except (ValueError, LookupError, TypeError) as error:
        raise Unreachable(f"what answers a watch is no API server: {line[:80]!r} is no event. A proxy?") from error
    return Event(kind, item)


# ---------------------------------------------------------------------------------------------- for ever
class Follower(Protocol):
    """The receiver of a collection; where it raises, the collection is listed again."""

    def replace_all(self, items: list[Any]) -> None: ...
    def put(self, item: Json) -> None: ...
    def remove(self, item: Json) -> None: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the API server is asked."""

    watch: Seconds = 120.0
    """The API server ends a watch after so long."""
    backoff: Backoff = Backoff()  # noqa: RUF009  frozen


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Time and chance, which tests replace."""

    clock: Callable[[], Seconds] = time.monotonic
    share: Callable[[], float] = random.random
    pause: Callable[[Seconds], object] | None = None
    """By default a wait that `stop` ends."""


class Watch:
    """Keeps a follower told in a thread of its own."""

    def __init__(
        self,
        api: Api,
        collection: Collection,
        follower: Follower,
        *,
        pace: Pace | None = None,
        beat: Callable[[], None] = lambda: None,
        around: Surroundings | None = None,
    ) -> None:
        self._api, self._collection, self._follower = api, collection, follower
        self._pace, self._around = pace or Pace(), around or Surroundings()
        self._beat = beat
        """Called whenever something is asked or heard: a watch that hangs does not call it."""
        self._place = Place()
        self._fresh_at: Seconds | None = None
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._thread: threading.Thread | None = None
        self.is_following = False
        """What the follower was told is the truth of now, as far as anybody knows."""

    def start(self) -> None:
        """Begin."""
        name = self._collection.path.rpartition("/")[2]
        self._thread = threading.Thread(target=self.run, name=f"watch {name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch that is under way."""
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            stream.shut_down()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def age_seconds(self) -> Seconds:
        """Return the time since the last word of the API server; infinite before the first list."""
        return float("inf") if self._fresh_at is None else self._around.clock() - self._fresh_at

    def run(self) -> None:
        """List and watch until `stop`."""
        while not self._stopping.is_set():
            began = self._around.clock()
            end, why = self._follow_once()
            self._place = resume(self._place, end, lived=self._around.clock() - began)
            pause = self._pace.backoff.pause(self._place.failures, self._around.share())
            self.is_following = end is End.OVER and not pause
            if self._stopping.is_set():
                break
            self._log(end, why, pause)
            if pause:
                (self._around.pause or self._stopping.wait)(pause)
        self.is_following = False

    def _log(self, end: End, why: str, pause: Seconds) -> None:
        if pause:
            log.warning("the watch on %s broke: %s; again in %.1f s", self._collection.path, why, pause)
        elif end is End.GONE:
            log.info("%s is listed anew: %s", self._collection.path, why)

    def _follow_once(self) -> tuple[End, str]:
        """List, where there is no version to go on from, and watch until it ends."""
        try:
            if not self._place.version:
                self._list()
            self._watch()
        except Gone as error:
            return End.GONE, str(error)
        except ApiError as error:
            return End.BROKEN, str(error)
        except Exception as error:  # noqa: BLE001  an answer of a strange form raises anything; the watch outlives it
            return End.UNREADABLE, f"an answer cannot be read ({error!r:.200})"
        return End.OVER, "it ended before its time"

    def _list(self) -> None:
        self._beat()
        query = dict(self._collection.query)
        found = self._api.call("GET", self._collection.path, query=query, seconds=_LIST_SECONDS)
        self._follower.replace_all(found["items"])
        self._place = replace(self._place, version=found["metadata"]["resourceVersion"], is_listed=True)
        self._heard()

    def _watch(self) -> None:
        self._beat()
        stream = open_watch(self._api, self._collection, version=self._place.version, seconds=self._pace.watch)
        with contextlib.closing(stream):
            self._stream = stream
            self.is_following = True
            if self._stopping.is_set():  # told while it was opened
                return
            for event in events(stream):
                self._apply(event)
        self._heard()

    def _apply(self, event: Event) -> None:
        if event.kind in ("ADDED", "MODIFIED"):
            self._follower.put(event.item)
        elif event.kind == "DELETED":
            self._follower.remove(event.item)
        self._place = replace(self._place, version=event.version, is_listed=False)
        self._heard()

    def _heard(self) -> None:
        self._fresh_at = self._around.clock()
        self._beat()

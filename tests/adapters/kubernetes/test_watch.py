"""A follower is told of every object, whatever becomes of the list, the watch or the connection."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from adapters.errors import Gone, Unreachable
from adapters.kubernetes import watch as module
from adapters.kubernetes.backoff import Backoff
from adapters.kubernetes.client import Json, connect
from adapters.kubernetes.watch import (
    MAX_RESUMES,
    Collection,
    End,
    Pace,
    Place,
    Surroundings,
    Watch,
    events,
    open_watch,
    resume,
)
from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from tests.fakes.api_server import GONE, FakeApiServer, Lines, Reply, event, listed, thing

THINGS = Collection("/api/v1/things", {"fieldSelector": "spec.nodeName=n"})


# ---------------------------------------------------------------------------------------------- what follows
@pytest.mark.parametrize(
    ("before", "end", "lived", "after"),
    [
        pytest.param(Place("5", failures=3), End.OVER, 30.0, Place("5"), id="one that lived is gone on from at once"),
        pytest.param(Place("5"), End.OVER, 0.0, Place("5", failures=1), id="one that ended at once is a failure"),
        pytest.param(Place("5", failures=1), End.BROKEN, 0.0, Place("5", failures=2), id="a broken one resumes"),
        pytest.param(Place("5", failures=4), End.BROKEN, 30.0, Place("5", failures=1), id="having lived, quickly"),
        pytest.param(Place(failures=1), End.BROKEN, 0.0, Place(failures=2), id="a list that failed is tried again"),
        pytest.param(Place("5", failures=2), End.GONE, 0.0, Place(), id="a forgotten version is listed at once"),
        pytest.param(
            Place("5", is_listed=True), End.GONE, 0.0, Place(is_listed=True, failures=1), id="a list's own, later"
        ),
        pytest.param(Place("5"), End.UNREADABLE, 0.0, Place(failures=1), id="after a strange answer it is listed"),
        pytest.param(
            Place("5", failures=MAX_RESUMES),
            End.BROKEN,
            0.0,
            Place(failures=MAX_RESUMES + 1),
            id="a version that never works is given up",
        ),
    ],
)
def test_where_the_next_watch_begins(before: Place, end: End, lived: float, after: Place) -> None:
    assert resume(before, end, lived=lived) == after


@pytest.mark.parametrize(
    ("failures", "share", "pause"),
    [
        pytest.param(0, 0.5, 0.0, id="no failure, no pause"),
        pytest.param(1, 0.5, 1.0, id="the first"),
        pytest.param(4, 0.5, 8.0, id="each is twice as long"),
        pytest.param(9, 0.5, 30.0, id="up to the longest"),
        pytest.param(2000, 0.5, 30.0, id="also after a day"),
        pytest.param(9, 0.0, 15.0, id="half as long at least"),
        pytest.param(9, 0.999, 44.97, id="half as much again at most"),
    ],
)
def test_pauses_grow_and_differ(failures: int, share: float, pause: float) -> None:
    assert Backoff().pause(failures, share) == pytest.approx(pause)


# ---------------------------------------------------------------------------------------------- pace, without a socket
@dataclass
class Scripted:
    """An API server whose watches do what the test says, and whose time is the test's."""

    act: Callable[["Scripted"], list[Json]]
    max_pauses: int
    now: float = 0.0
    lists: int = 0
    pauses: list[float] = field(default_factory=list)
    was_following: list[bool] = field(default_factory=list)
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        around = Surroundings(clock=lambda: self.now, share=lambda: 0.5, pause=self.pause)
        self.watch = Watch(self, THINGS, Kept(), around=around)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.was_following.append(self.watch.is_following)
        self.now += seconds
        if len(self.pauses) == self.max_pauses:
            self.watch.stop()

    def call(self, *_: object, **__: object) -> Json:
        self.lists += 1
        assert self.lists < 100, "it asks and asks"
        return listed()

    def open(self, *_: object, **__: object) -> "ScriptedStream":
        return ScriptedStream(self.act(self))


@dataclass
class ScriptedStream:
    found: list[Json]

    def lines(self) -> Iterator[bytes]:
        import json

        return (json.dumps(one).encode() for one in self.found)

    def shut_down(self) -> None: ...
    def close(self) -> None: ...


class Kept:
    """A follower that keeps what it is told, by name."""

    def __init__(self) -> None:
        self.things: dict[str, Json] = {}
        self.news = threading.Condition()

    def replace_all(self, items: list[Any]) -> None:
        with self.news:
            self.things = {item["metadata"]["name"]: item for item in items}
            self.news.notify_all()

    def put(self, item: Json) -> None:
        with self.news:
            self.things[item["metadata"]["name"]] = item
            self.news.notify_all()

    def remove(self, item: Json) -> None:
        with self.news:
            self.things.pop(item["metadata"]["name"])
            self.news.notify_all()

    def wait_for(self, *names: str) -> None:
        with self.news:
            assert self.news.wait_for(lambda: set(self.things) == set(names), 30), self.things


def refused(_: Scripted) -> list[Json]:
    raise Unreachable("403")


def over_at_once(_: Scripted) -> list[Json]:
    return []


def broken_after_a_while(server: Scripted) -> list[Json]:
    server.now += 20.0
    raise Unreachable("reset")


def forgotten_at_once(_: Scripted) -> list[Json]:
    return [GONE]


@pytest.mark.parametrize(
    ("act", "pauses", "lists"),
    [
        pytest.param(refused, [1, 2, 4, 8, 16, 30, 30], 2, id="refused, though lists are not"),
        pytest.param(over_at_once, [1, 2, 4, 8, 16, 30, 30], 2, id="over at once, without an error"),
        pytest.param(broken_after_a_while, [1, 1, 1, 1, 1, 1, 1], 1, id="broken after it had lived"),
        pytest.param(forgotten_at_once, [1, 2, 4, 8, 16, 30, 30], 7, id="forgotten as soon as it is listed"),
    ],
)
def test_a_watch_that_does_not_live_is_begun_ever_more_rarely(
    act: Callable[[Scripted], list[Json]], pauses: list[float], lists: int
) -> None:
    server = Scripted(act, len(pauses))
    server.watch.run()

    assert (server.pauses, server.lists) == (pauses, lists)
    assert not any(server.was_following), "what it was told may not be true any more"


def test_age_counts_from_the_last_sign_of_life() -> None:
    ages: list[float] = []

    def silent_then_broken(server: Scripted) -> list[Json]:
        server.now += 7.0
        ages.append(server.watch.age_seconds())
        raise Unreachable("reset")

    server = Scripted(silent_then_broken, 1)
    ages.append(server.watch.age_seconds())
    server.watch.run()

    assert ages == [float("inf"), 7.0]
    assert server.watch.age_seconds() == 8.0, "the pause makes it older"


def test_a_watch_that_ends_in_good_order_counts_as_a_sign_of_life() -> None:
    following: list[bool] = []

    def quiet(server: Scripted) -> list[Json]:
        following.append(server.watch.is_following)
        server.now += 30.0
        if server.now > 60.0:
            raise Unreachable("enough")
        return []

    server = Scripted(quiet, 1)
    server.watch.run()

    assert server.watch.age_seconds() == pytest.approx(31.0)
    assert following == [False, True, True], "between two watches nothing is missed"


# ---------------------------------------------------------------------------------------------- over real connections
AT_ONCE = Pace(watch=0.2, backoff=Backoff(first=0.001, longest=0.001))


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def follow(fake: FakeApiServer, kept: Kept) -> Iterator[Callable[[], Watch]]:
    """Follow the fake API server."""
    running: list[Watch] = []

    def begin() -> Watch:
        watch = Watch(fake.api, THINGS, kept, pace=AT_ONCE)
        watch.start()
        running.append(watch)
        return watch

    yield begin
    for watch in running:
        watch.stop()


def test_a_watch_goes_on_where_it_ended(fake: FakeApiServer, kept: Kept, follow: Callable[[], Watch]) -> None:
    fake.answers = [Reply(listed(thing("a", 5)))]
    fake.watches = [
        Lines([event("ADDED", thing("b", 11)), event("BOOKMARK", {"metadata": {"resourceVersion": "15"}})]),
        Lines([event("MODIFIED", thing("b", 16, is_new=True)), event("DELETED", thing("a", 17))]),
    ]
    follow()

    assert fake.wait_for_watches(3) == ["10", "15", "17"]
    assert kept.things == {"b": thing("b", 16, is_new=True)}
    assert [request.query["fieldSelector"] for request in fake.requests] == ["spec.nodeName=n"] * 4


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Lines([event("ADDED", thing("b", 11))], then="cut"), id="a connection that is cut"),
        pytest.param(Lines([event("ADDED", thing("b", 11))], then="silence"), id="one that falls silent"),
        pytest.param(
            Lines([event("ADDED", thing("b", 11)), event("ERROR", {"code": 500, "message": "etcd"})]), id="an error"
        ),
        pytest.param(Lines([event("ADDED", thing("b", 11)), "text"]), id="a line that is no event"),
    ],
)
def test_a_watch_that_breaks_off_loses_nothing(
    fake: FakeApiServer,
    kept: Kept,
    follow: Callable[[], Watch],
    monkeypatch: pytest.MonkeyPatch,
    trouble: Lines,
) -> None:
    monkeypatch.setattr(module, "_SLACK_SECONDS", 0.1)
    fake.watches = [trouble, Lines([event("ADDED", thing("c", 12))], then="silence")]
    follow()
    kept.wait_for("b", "c")

    assert fake.versions()[:2] == ["10", "11"], "it goes on after the last event"


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(Reply({"message": "too old"}, 410), id="said before the first event"),
        pytest.param(Lines([GONE]), id="said as an event"),
    ],
)
def test_a_version_that_is_forgotten_is_listed_anew(
    fake: FakeApiServer, kept: Kept, follow: Callable[[], Watch], gone: Reply | Lines
) -> None:
    fake.answers = [Reply(listed(thing("a", 5))), Reply(listed(thing("c", 30), version="31"))]
    fake.watches = [Lines([event("ADDED", thing("b", 11))]), gone]
    follow()
    kept.wait_for("c")

    assert fake.wait_for_watches(3) == ["10", "11", "31"]


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param(Reply([1]), id="a list that is no object"),
        pytest.param(Reply({"items": 3}), id="items that are none"),
        pytest.param(Reply({"items": ["text"], "metadata": {"resourceVersion": "1"}}), id="an item that is none"),
        pytest.param(Reply({"items": []}), id="a list without a version"),
        pytest.param(Reply({"message": "down"}, 500), id="an error"),
        pytest.param(Reply(b"{", missing=10), id="a body that breaks off"),
    ],
)
def test_a_watch_outlives_a_strange_list(
    fake: FakeApiServer, kept: Kept, follow: Callable[[], Watch], strange: Reply
) -> None:
    fake.answers = [strange, Reply(listed(thing("a", 5)))]
    follow()

    kept.wait_for("a")


@pytest.mark.parametrize("item", [[1], {}, {"metadata": 3}, {"metadata": {"name": "b"}}], ids=str)
def test_a_watch_outlives_a_strange_object_and_lists_anew(
    fake: FakeApiServer, kept: Kept, follow: Callable[[], Watch], item: Any
) -> None:
    fake.answers = [Reply(listed(thing("a", 5))), Reply(listed(thing("c", 30)))]
    fake.watches = [Lines([event("ADDED", item)])]
    follow()

    kept.wait_for("c")


def test_following_is_said_only_while_it_is_true(fake: FakeApiServer, follow: Callable[[], Watch]) -> None:
    refusal = Reply({"message": "no role"}, 403)
    fake.watches = [refusal] * 3
    watch = follow()
    fake.wait_for_watches(3)
    assert not watch.is_following

    fake.wait_for_watches(4)
    _until(lambda: watch.is_following)
    watch.stop()
    assert not watch.is_following


def test_stop_ends_a_silent_watch_at_once(fake: FakeApiServer, kept: Kept) -> None:
    watch = Watch(fake.api, THINGS, kept)
    watch.start()
    fake.wait_for_watches(1)
    _until(lambda: watch.is_following)
    watch.stop()

    assert watch._thread is not None
    assert not watch._thread.is_alive()


def test_every_step_is_reported_to_the_watchdog(fake: FakeApiServer, kept: Kept) -> None:
    beats: list[int] = []
    fake.watches = [Lines([event("ADDED", thing("b", 11)), event("ADDED", thing("c", 12))])]
    watch = Watch(fake.api, THINGS, kept, pace=AT_ONCE, beat=lambda: beats.append(1))
    watch.start()
    fake.wait_for_watches(2)
    watch.stop()

    assert len(beats) >= 7, "asked for and got a list, opened, two events, its end, opened"


def _until(holds: Callable[[], bool]) -> None:
    """Wait for a flag that another thread sets without telling."""
    end = threading.Event()
    for _ in range(3000):
        if holds():
            return
        end.wait(0.01)
    raise AssertionError("not in time")


# ---------------------------------------------------------------------------------------------- a real API server
@pytest.mark.cluster
@pytest.mark.slow
def test_a_real_api_server_is_followed_through_a_restart_which_makes_it_forget_old_versions() -> None:
    with control_plane(Options()) as plane:
        api, kept, namespaces = connect(str(plane.kubeconfig)), Kept(), Collection("/api/v1/namespaces")
        watch = Watch(api, namespaces, kept)
        watch.start()
        plane.create_namespace("one")
        _until(lambda: "one" in kept.things)
        plane.processes["kube-apiserver"].restart()
        plane.wait_ready()
        plane.create_namespace("two")
        _until(lambda: "two" in kept.things)
        watch.stop()
        with pytest.raises(Gone, match="too old"):
            list(events(open_watch(api, namespaces, version="1", seconds=5)))


@pytest.mark.cluster
def test_real_objects_come_and_go_through_cut_connections(api_server: ControlPlane, namespace: str) -> None:
    api, kept = connect(str(api_server.kubeconfig)), Kept()
    maps = Collection(f"/api/v1/namespaces/{namespace}/configmaps", {"fieldSelector": "metadata.name=one"})
    watch = Watch(api, maps, kept, pace=AT_ONCE)
    watch.start()
    kept.wait_for()
    api_server.kubectl("create", "configmap", "one", "-n", namespace)
    kept.wait_for("one")
    for value in "12":
        assert watch._stream is not None
        watch._stream.shut_down()  # as a load balancer would
        api_server.kubectl("patch", "configmap", "one", "-n", namespace, "-p", f'{{"data": {{"a": "{value}"}}}}')
        _until(lambda: kept.things["one"].get("data") == {"a": value})  # noqa: B023  awaited here
    api_server.kubectl("delete", "configmap", "one", "-n", namespace)
    kept.wait_for()
    watch.stop()

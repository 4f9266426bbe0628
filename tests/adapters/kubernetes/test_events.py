"""Events: counted, bounded, told in the background; what is lost is counted."""

import threading
from collections.abc import Iterator

import kubernetes.client
import pytest

from adapters.errors import NoCluster
from adapters.kubernetes import events as module
from adapters.kubernetes.backoff import Backoff
from adapters.kubernetes.client import ApiServer, connect
from adapters.kubernetes.events import (
    BURST,
    MAX_WAITING,
    PER_SECOND,
    SAME_SECONDS,
    About,
    Counted,
    Event,
    EventQueue,
    EventSink,
    body_of,
    node,
)
from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.api_server import FakeApiServer, Reply

POD = About("Pod", "train-0", "team", "u-1")


def one(message: str = "why", *, about: About = POD, reason: str = "GpuJam", topic: str | None = None) -> Event:
    return Event(about, reason, message, topic=topic)


def once(event: Event, at: float = 0.0) -> Counted:
    return Counted(event, 1, at, at)


def taken(queue: EventQueue, *, now: float) -> list[Counted]:
    found = []
    while (next_one := queue.take(now=now)) is not None:
        found.append(next_one)
    return found


# ---------------------------------------------------------------------------------------------- the queue
def test_the_same_event_again_is_one_with_a_count_and_both_times() -> None:
    queue = EventQueue()
    queue.add(once(one()))
    (first,) = taken(queue, now=0.0)
    for second in range(500):
        queue.add(once(one(), at=1000.0 + second))

    assert first.times == 1
    assert taken(queue, now=SAME_SECONDS - 1) == []
    assert taken(queue, now=SAME_SECONDS + 1) == [Counted(one(), 500, 1000.0, 1499.0)]
    assert taken(queue, now=9999.0) == []


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        pytest.param(one(), True, id="the same"),
        pytest.param(one("another"), False, id="another message"),
        pytest.param(one(reason="GpuTurnOverdue"), False, id="another reason"),
        pytest.param(one(about=About("Pod", "train-0", "other-team")), False, id="a namesake elsewhere"),
        pytest.param(one(about=node("train-0")), False, id="a node of that name"),
    ],
)
def test_which_events_are_the_same(other: Event, is_same: bool) -> None:
    assert (one().key == other.key) is is_same


def test_events_of_one_topic_are_the_same_and_the_newest_message_is_told() -> None:
    queue = EventQueue()
    queue.add(once(one("used by 1", topic="GPU-1")))
    queue.add(once(one("used by 1, 2", topic="GPU-1")))
    queue.add(once(one("used by 3", topic="GPU-2")))

    assert [(each.event.message, each.times) for each in taken(queue, now=0.0)] == [
        ("used by 1, 2", 2),
        ("used by 3", 1),
    ]


def test_many_different_events_do_not_pile_up_and_the_oldest_are_counted_as_dropped() -> None:
    queue = EventQueue()
    for number in range(1000):
        queue.add(once(one(str(number))))

    assert len(queue.waiting) == MAX_WAITING
    assert queue.dropped == 1000 - MAX_WAITING
    assert queue.take(now=0.0) == once(one(str(1000 - MAX_WAITING)))


def test_a_dropped_event_counts_as_often_as_it_happened() -> None:
    queue = EventQueue()
    for _ in range(7):
        queue.add(once(one("often")))
    for number in range(MAX_WAITING):
        queue.add(once(one(str(number))))

    assert queue.dropped == 7


def test_a_flood_is_sent_at_a_bounded_rate() -> None:
    queue = EventQueue()
    for number in range(MAX_WAITING):
        queue.add(once(one(str(number))))

    assert len(taken(queue, now=100.0)) == BURST
    assert taken(queue, now=100.5) == []
    assert len(taken(queue, now=110.0)) == 10 * PER_SECOND
    assert len(taken(queue, now=9999.0)) == MAX_WAITING - BURST - 10 * PER_SECOND


def test_an_event_that_could_not_be_told_waits_again_before_all_others() -> None:
    queue = EventQueue()
    queue.add(once(one("first"), at=1.0))
    failed = queue.take(now=0.0)
    assert failed is not None
    queue.add(once(one("second")))
    queue.add(once(one("first"), at=5.0))
    queue.give_back(failed)

    assert taken(queue, now=0.0) == [Counted(one("first"), 2, 1.0, 5.0), once(one("second"))]


@pytest.mark.parametrize(
    ("about", "namespace", "involved"),
    [
        pytest.param(
            POD,
            "team",
            {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "train-0", "uid": "u-1"},
            id="a pod",
        ),
        pytest.param(
            node("gpu-7"),
            "default",
            {"apiVersion": "v1", "kind": "Node", "name": "gpu-7", "uid": "gpu-7"},
            id="a node, as the kubelet names it",
        ),
    ],
)
def test_what_the_api_server_is_sent(about: About, namespace: str, involved: dict[str, str]) -> None:
    counted = Counted(Event(about, "GpuJam", "x" * 2000, is_warning=False), 3, 0.0, 60.0)

    assert body_of(counted, component="ours", host="gpu-7", suffix="1a") == {
        "metadata": {"name": f"{about.name}.1a", "namespace": namespace},
        "involvedObject": involved,
        "reason": "GpuJam",
        "message": "x" * 1024,
        "type": "Normal",
        "source": {"component": "ours", "host": "gpu-7"},
        "firstTimestamp": "1970-01-01T00:00:00Z",
        "lastTimestamp": "1970-01-01T00:01:00Z",
        "count": 3,
    }


# ---------------------------------------------------------------------------------------------- the sink
@pytest.fixture
def sink(fake: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventSink]:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(first=0.01, longest=0.01))
    api = fake.api
    sink = EventSink(lambda: api, component="ours", host="gpu-7")
    sink.start()
    yield sink
    sink.stop()


def test_an_event_reaches_the_api_server(fake: FakeApiServer, sink: EventSink) -> None:
    sink.tell(one())
    (request,) = fake.wait_for_requests(1)

    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/team/events")
    assert (request.body["reason"], request.body["count"], sink.dropped) == ("GpuJam", 1, 0)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Reply({"message": "down"}, 503), id="an error of the server"),
        pytest.param(Reply(b"{", missing=9), id="an answer that breaks off"),
    ],
)
def test_an_event_is_told_again_while_the_api_server_is_away(
    fake: FakeApiServer, sink: EventSink, trouble: Reply
) -> None:
    fake.answers = [trouble] * 3
    sink.tell(one())
    told = [request.body["message"] for request in fake.wait_for_requests(4)]

    assert told == ["why"] * 4
    assert sink.dropped == 0


@pytest.mark.parametrize("status", [403, 404, 422])
def test_an_event_that_is_refused_is_dropped_and_counted(fake: FakeApiServer, sink: EventSink, status: int) -> None:
    fake.answers = [Reply({"message": "no"}, status)]
    sink.tell(one("first"))
    fake.wait_for_requests(1)
    sink.tell(one("second"))
    told = [request.body["message"] for request in fake.wait_for_requests(2)]

    assert (told, sink.dropped) == (["first", "second"], 1)


def test_a_caller_never_waits_for_an_api_server_that_hangs() -> None:
    asked, hang = threading.Event(), threading.Event()

    def never() -> ApiServer:
        asked.set()
        hang.wait()
        raise NoCluster("none")

    sink = EventSink(never, component="ours", host="gpu-7")
    sink.start()
    sink.tell(one("first"))
    assert asked.wait(10)
    for number in range(1000):
        sink.tell(one(str(number)))

    assert sink.dropped == 1000 - MAX_WAITING
    hang.set()
    sink.stop()


def test_a_cluster_that_is_not_known_yet_is_looked_for_again(
    fake: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(first=0.01, longest=0.01))
    looks: list[int] = []

    def second_time() -> ApiServer:
        looks.append(1)
        if len(looks) < 2:
            raise NoCluster("none")
        return fake.api

    sink = EventSink(second_time, component="ours", host="gpu-7")
    sink.start()
    sink.tell(one())
    fake.wait_for_requests(1)
    sink.stop()

    assert sink.dropped == 0


@pytest.mark.cluster
def test_a_real_api_server_takes_events_of_pods_and_nodes(api_server: ControlPlane, namespace: str) -> None:
    api = connect(str(api_server.kubeconfig))
    sink = EventSink(lambda: api, component="ours", host="gpu-7")
    sink.start()
    sink.tell(one(about=About("Pod", "train-0", namespace, "u-1")))
    sink.tell(one(about=node(f"node-of-{namespace}")))
    core = kubernetes.client.CoreV1Api(api_server.client())
    in_pod = _wait_for(core, namespace, "train-0")
    of_node = _wait_for(core, "default", f"node-of-{namespace}")
    sink.stop()

    assert (in_pod.reason, in_pod.count, in_pod.involved_object.uid) == ("GpuJam", 1, "u-1")
    assert of_node.source is not None
    assert (of_node.source.component, of_node.involved_object.kind) == ("ours", "Node")


def _wait_for(core: kubernetes.client.CoreV1Api, namespace: str, name: str) -> kubernetes.client.CoreV1Event:
    pause = threading.Event()
    for _ in range(600):
        found = core.list_namespaced_event(namespace, field_selector=f"involvedObject.name={name}").items
        if found:
            return found[0]
        pause.wait(0.05)
    raise AssertionError("not in time")

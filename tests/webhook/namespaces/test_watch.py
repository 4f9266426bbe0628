"""The namespaces of a cluster: a watch keeps them; the API server is asked for one that the watch has not shown."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.api_server import FakeApiServer, Lines, Reply, event, fake_api_server, listed
from webhook.admission.json_fields import Json
from webhook.errors import NotSynced
from webhook.namespaces.watch import WatchedNamespaces, watch_cluster


def _namespace(name: str, version: int, **annotations: str) -> Json:
    about = {f"nvshare.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    labels = {"nvshare.com/injection": "enabled"}
    return {"metadata": {"name": name, "labels": labels, "annotations": about, "resourceVersion": str(version)}}


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


def test_policies_follow_the_watch(fake: FakeApiServer) -> None:
    fake.answers = [Reply(listed(_namespace("a", 5))), Reply({"message": "not found"}, 404)]
    fake.watches = [
        Lines(
            [
                event("ADDED", _namespace("b", 11)),
                event("MODIFIED", _namespace("b", 16, max_gpus="3")),
                event("DELETED", _namespace("a", 17)),
            ],
            then="silence",
        )
    ]
    namespaces = WatchedNamespaces(fake.api)
    namespaces.start()
    _until(lambda: namespaces.names() == {"b"})

    known = namespaces.known("b")
    assert known is not None
    assert known.max_gpus == 3
    assert namespaces.ask("a").injection is None, "the API server has no such namespace"
    namespaces.stop()


@pytest.mark.parametrize("name", ["new", "strange/../name"])
def test_a_namespace_not_seen_yet_is_asked_for(fake: FakeApiServer, name: str) -> None:
    fake.answers = [Reply(_namespace(name, 3, multi_gpu="gang"))]
    namespaces = WatchedNamespaces(fake.api)
    assert namespaces.known(name) is None

    policy = namespaces.ask(name)

    assert policy.mode == "gang"
    assert namespaces.known(name) is policy
    assert fake.requests[0].path == f"/api/v1/namespaces/{name.replace('/', '%2F')}"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply({"message": "down"}, 500), id="an error"),
        pytest.param(Reply(b"<html>"), id="a page of a proxy"),
        pytest.param(Reply({"metadata": 3}), id="an object of no such kind"),
    ],
)
def test_a_namespace_that_cannot_be_read_is_asked_for_again_later(fake: FakeApiServer, reply: Reply) -> None:
    fake.answers = [reply]
    with pytest.raises(NotSynced, match="'new' could not be read just now") as caught:
        WatchedNamespaces(fake.api).ask("new")

    assert caught.value.status == 503


@pytest.mark.parametrize("strange", [[1], ["text"], [{"metadata": 3}]], ids=str)
def test_a_list_of_a_strange_form_is_asked_for_again(fake: FakeApiServer, strange: list[Json]) -> None:
    fake.answers = [Reply(listed(*strange)), Reply(listed(_namespace("a", 5)))]
    namespaces = WatchedNamespaces(fake.api)
    namespaces.start()
    _until(lambda: namespaces.names() == {"a"})
    namespaces.stop()


def test_readiness_waits_for_the_first_list_and_age_counts_from_it(fake: FakeApiServer) -> None:
    now = [100.0]
    namespaces = WatchedNamespaces(fake.api, clock=lambda: now[0])
    assert (namespaces.age_seconds(), namespaces.why_unready()) == (float("inf"), "namespaces are not known yet")
    namespaces.start()
    fake.wait_for_watches(1)
    now[0] = 107.0

    assert (namespaces.age_seconds(), namespaces.why_unready()) == (7.0, "")
    namespaces.stop()


@pytest.mark.cluster
def test_the_watch_follows_a_real_api_server(api_server: ControlPlane, namespace: str) -> None:
    namespaces = watch_cluster(str(api_server.kubeconfig))
    namespaces.start()
    _until(lambda: namespace in namespaces.names())
    api_server.kubectl("label", "namespace", namespace, "nvshare.com/injection=enabled")
    _until(lambda: _is_opted_in(namespaces, namespace))
    namespaces.stop()


def _is_opted_in(namespaces: WatchedNamespaces, name: str) -> bool:
    """Return whether the watch has shown it; the API server is not asked."""
    policy = namespaces.known(name)
    return policy is not None and policy.injection == "enabled"


def _until(holds: Callable[[], bool]) -> None:
    """Wait for a change that another thread makes without a signal."""
    pause, end = threading.Event(), time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        pause.wait(0.02)

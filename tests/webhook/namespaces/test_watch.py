"""The namespace watch against a scripted API, and against a real API server that is restarted under it."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import kubernetes.client
import pytest

from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from webhook.admission.json_fields import Json
from webhook.errors import NotSynced
from webhook.namespaces import watch
from webhook.namespaces.watch import Gone, WatchedNamespaces, watch_cluster


def _namespace(name: str, version: int, **annotations: str) -> Json:
    about = {f"nvshare.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    labels = {"nvshare.com/injection": "enabled"}
    return {"metadata": {"name": name, "labels": labels, "annotations": about, "resourceVersion": str(version)}}


def _event(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


@dataclass
class ScriptedApi:
    """Answers as written; notes where each watch began."""

    lists: list[list[Json]] = field(default_factory=list)
    watches: list[list[Json]] = field(default_factory=list)
    known: dict[str, Json] = field(default_factory=dict)
    began_at: list[str] = field(default_factory=list)
    is_down: bool = False

    def list(self) -> Json:
        return {"items": self.lists.pop(0), "metadata": {"resourceVersion": "10"}}

    def watch(self, resource_version: str) -> Iterator[Json]:
        self.began_at.append(resource_version)
        if not self.watches:
            raise OSError("nothing more to say")
        yield from self.watches.pop(0)

    def get(self, name: str) -> Json | None:
        if self.is_down:
            raise kubernetes.client.ApiException(status=500, reason="down")
        return self.known.get(name)


def test_a_watch_resumes_where_it_stopped() -> None:
    api = ScriptedApi(
        lists=[[_namespace("a", 5)]],
        watches=[
            [_event("ADDED", _namespace("b", 11)), _event("BOOKMARK", {"metadata": {"resourceVersion": "15"}})],
            [_event("MODIFIED", _namespace("b", 16, max_gpus="3")), _event("DELETED", _namespace("a", 17))],
            [],
        ],
    )
    namespaces = WatchedNamespaces(api)
    for _ in range(3):
        namespaces.follow()

    assert api.began_at == ["10", "15", "17"]
    assert namespaces.policy_of("b").max_gpus == 3
    assert namespaces.policy_of("a").injection is None  # asked for, and not there


def test_a_place_that_is_forgotten_is_listed_anew() -> None:
    error = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
    api = ScriptedApi(lists=[[_namespace("a", 5)], [_namespace("c", 30)]], watches=[[error], []])
    namespaces = WatchedNamespaces(api)

    with pytest.raises(Gone):
        namespaces.follow()
    namespaces.forget()
    namespaces.follow()

    assert api.began_at == ["10", "10"]
    assert namespaces.policy_of("c").injection == "enabled"


def test_a_namespace_not_seen_yet_is_asked_for() -> None:
    api = ScriptedApi(known={"new": _namespace("new", 3, multi_gpu="gang")})
    assert WatchedNamespaces(api).policy_of("new").mode == "gang"


def test_what_cannot_be_known_is_an_error_that_the_api_server_retries() -> None:
    with pytest.raises(NotSynced) as caught:
        WatchedNamespaces(ScriptedApi(is_down=True)).policy_of("new")
    assert caught.value.status == 503


@pytest.mark.parametrize(
    "strange", [[1], ["text"], [{"metadata": 3}], [{"type": "ADDED", "object": [1]}], [_event("ADDED", {})]], ids=str
)
def test_the_watch_outlives_a_strange_answer(strange: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_RETRY_SECONDS", (0.0,))
    api = ScriptedApi(lists=[strange, [], [_namespace("a", 5)]], watches=[strange, []])
    namespaces = WatchedNamespaces(api)
    thread = threading.Thread(target=namespaces.run, daemon=True)
    thread.start()
    _until(lambda: not api.watches or not thread.is_alive())
    assert thread.is_alive()
    namespaces.stop()


def test_age_counts_from_the_last_sign_of_life() -> None:
    now = [100.0]
    api = ScriptedApi(lists=[[]], watches=[[]])
    namespaces = WatchedNamespaces(api, clock=lambda: now[0])
    assert (namespaces.age_seconds(), namespaces.why_unready()) == (float("inf"), "namespaces are not known yet")
    namespaces.follow()
    now[0] = 107.0
    assert (namespaces.age_seconds(), namespaces.why_unready()) == (7.0, "")


@pytest.mark.cluster
@pytest.mark.slow
def test_it_follows_a_real_api_server_through_a_restart() -> None:
    with control_plane(Options()) as plane:
        namespaces = watch_cluster(str(plane.kubeconfig))
        thread = threading.Thread(target=namespaces.run, daemon=True)
        thread.start()
        _until(lambda: not namespaces.why_unready())
        _add(plane, "one")
        _until(lambda: "one" in namespaces.names())
        plane.processes["kube-apiserver"].restart()
        plane.wait_ready()
        _add(plane, "two")
        _until(lambda: "two" in namespaces.names())
        namespaces.stop()


def _add(plane: ControlPlane, name: str) -> None:
    plane.create_namespace(name, labels={"nvshare.com/injection": "enabled"})


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)

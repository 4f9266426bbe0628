"""How often the API is asked and told, whatever it answers; the server is the test's, and so is the time."""

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client

from schedulerd.observer import cluster as module
from schedulerd.observer.pod_facts import Owner


class Server:
    """It lists well; what becomes of a watch is the test's; pauses take no time."""

    def __init__(self, watch: Any, *, pauses: Any) -> None:
        self.now, self.most_pauses, self.watches, self._watch = 0.0, pauses, 0, watch
        self.pauses: list[float] = []

    def monotonic(self) -> Any:
        return self.now

    def is_set(self) -> Any:
        return len(self.pauses) == self.most_pauses

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def list_pod_for_all_namespaces(self, *, watch: Any = False, **_options: Any) -> Any:
        if not watch:
            return SimpleNamespace(data=json.dumps({"items": [], "metadata": {"resourceVersion": "1"}}))
        self.watches += 1
        assert self.watches < 100, "it asks and asks"
        return SimpleNamespace(stream=lambda _size: self._watch(self), close=lambda: None)


def refused(_server: Any) -> None:
    raise PermissionError("403")


def ends_at_once(_server: Any) -> Any:
    return ()


def breaks_after_a_while(server: Any) -> None:
    server.now += 20.0
    raise ConnectionResetError


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pauses that are made while a server does this."""

    def followed(server: Any) -> Any:
        monkeypatch.setattr(module, "_configuration", client.Configuration)
        monkeypatch.setattr(module, "time", server)
        monkeypatch.setattr(random, "random", lambda: 0.5)
        one = module.Cluster("node")
        one._core, one._stopping = server, server
        one._follow_for_ever()
        return server.pauses

    return followed


@pytest.mark.parametrize(
    ("watch", "pauses"),
    [
        pytest.param(refused, [1, 2, 4, 8, 16, 30, 30], id="refused, though lists are not"),
        pytest.param(ends_at_once, [1, 2, 4, 8, 16, 30, 30], id="over at once, without an error"),
        pytest.param(breaks_after_a_while, [1, 1, 1, 1, 1, 1, 1], id="broken after it had lived"),
    ],
)
def test_a_watch_that_does_not_live_is_begun_ever_more_rarely(follow: Any, watch: Any, pauses: Any) -> None:
    assert follow(Server(watch, pauses=len(pauses))) == pauses


def test_the_same_is_told_of_a_pod_once_a_minute_and_of_its_namesake_too(monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    monkeypatch.setattr(module, "_configuration", client.Configuration)
    cluster = module.Cluster("node")
    cluster._core = SimpleNamespace(create_namespaced_event=lambda namespace, _event, **_: events.append(namespace))
    owners = [Owner(namespace, "train-0", "main") for namespace in ("team-a", "team-b", "team-a")]
    told = [cluster.tell(owner, reason="GpuTurnOverdue", message="did not yield") for owner in owners]

    assert (told, events) == ([True, True, False], ["team-a", "team-b"])

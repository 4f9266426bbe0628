"""Pods on the bed's node, through the API server's own client.

The rule: a step starts no kubectl where it can ask by itself, since each one costs a third of a second of processor
time, and a step asks often.
"""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import kubernetes.client

from testbed.cluster.errors import BrokenError
from testbed.cluster.installed import Object
from testbed.cluster.machine.processes import wait_until
from testbed.nvidia.bed import Bed
from tests.system.nvidia import sights

_RUN_SECONDS = 120.0


def create(bed: Bed, team: str, wanted: Object) -> str:
    """Create a pod; return the API server's words where it is refused, else nothing."""
    try:
        bed.core.create_namespaced_pod(team, wanted)
    except kubernetes.client.ApiException as error:
        return str(json.loads(error.body or "{}")["message"])
    return ""


def start(bed: Bed, team: str, *wanted: Object) -> None:
    """Create pods and wait until they run; where one does not come up, raise with the reason."""
    for each in wanted:
        refused = create(bed, team, each)
        assert not refused, refused
    for each in wanted:
        wait_running(bed, team, each["metadata"]["name"])


def wait_running(bed: Bed, team: str, name: str) -> None:
    """Wait until the pod runs; where it does not, raise with the kubelet's reason."""
    try:
        wait_until(lambda: phase(bed, team, name) != "Pending", what=f"{name} runs", seconds=_RUN_SECONDS)
    except BrokenError as error:
        raise AssertionError(f"{error.cause.splitlines()[0][:100]}: {refusals(bed, team)[-1:]}") from None
    now = phase(bed, team, name)
    assert now == "Running", f"{name} is {now}: {log(bed, team, name)[-200:]}"


def phase(bed: Bed, team: str, name: str) -> str:
    return str(bed.core.read_namespaced_pod(name, team).status.phase)


def log(bed: Bed, team: str, name: str) -> str:
    return str(bed.core.read_namespaced_pod_log(name, team))


def look(bed: Bed, team: str, name: str) -> sights.Sight:
    """Wait for what the pod says of its cards at its start."""
    said = partial(log, bed, team, name)
    wait_until(lambda: sights.has_spoken(said()), what=f"{name} says what it sees", seconds=60)
    return sights.read(said())


def all_ended(bed: Bed, team: str, count: int) -> bool:
    listed = bed.core.list_namespaced_pod(team).items
    return sum(1 for item in listed if item.status.phase in ("Succeeded", "Failed")) == count


def refusals(bed: Bed, team: str) -> list[str]:
    """Return the messages of the events that say that a container could not be made."""
    events: Iterable[Any] = bed.core.list_namespaced_event(team, field_selector="reason=Failed").items
    return [event.message[-200:] for event in events for _ in range(event.count or 1)]


def is_warned(bed: Bed, team: str, name: str) -> bool:
    events = bed.core.list_namespaced_event(team, field_selector=f"involvedObject.name={name}").items
    return any(event.type == "Warning" for event in events)


def remove_all(bed: Bed, team: str) -> None:
    """Delete all pods of a namespace with their events, and wait until they are gone."""
    bed.core.delete_collection_namespaced_pod(team, grace_period_seconds=0)
    wait_until(lambda: not bed.core.list_namespaced_pod(team).items, what=f"the pods of {team} are gone", seconds=60)
    bed.core.delete_collection_namespaced_event(team)

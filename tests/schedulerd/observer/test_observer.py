"""The second process: whose an allocation is, the metrics page, fairness; the kubelet is a gRPC server of the test."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from adapters.kubelet.pod_resources import ContainerDevices, Devices
from contract.wire.control import PodFacts
from contract.wire.line import Line, decode, encode
from contract.wire.status import ContainerStatus, DaemonStatus, GpuStatus, PlaceStatus, State, Status
from contract.words.grammar import AllocationKind, Mode
from schedulerd.observer.exposition import Snapshot, expose
from schedulerd.observer.fairness import Fairness, jain
from schedulerd.observer.kubelet import Kubelet
from schedulerd.observer.pod_facts import Owner, facts, owners, summarise
from schedulerd.observer.service import Observer
from schedulerd.settings import build_parser, read_settings
from tests.fakes.pod_resources import FakePodResources, listing
from tests.fakes.pod_resources import pod as kubelet_pod
from tests.fakes.wire.client import PATIENCE

OWNER = Owner("team", "train", "main")


def container_with(*ids: str, resource: str = "nvshare.com/gpu") -> ContainerDevices:
    return ContainerDevices("team", "train", "main", (Devices(resource, ids),))


def pod(annotations: Any = None, *, mode: str | None = None, priority: int | None = None) -> Any:
    env = [{"name": "NVSHARE_MODE", "value": mode}] if mode else []
    return {
        "metadata": {"uid": "u", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "env": env}], "priority": priority},
    }


def test_a_container_is_found_by_the_very_set_of_its_devices() -> None:
    found = owners([container_with("GPU-1__0", "GPU-2__3")])

    assert found == {frozenset({"GPU-2__3", "GPU-1__0"}): OWNER}


def test_other_resources_are_not_ours() -> None:
    assert owners([container_with("GPU-1", resource="nvidia.com/gpu")]) == {}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(pod(), {}, id="a pod that says nothing"),
        pytest.param(pod(mode="gang"), {"mode": Mode.GANG}, id="the mode that the webhook wrote"),
        pytest.param(pod({"nvshare.com/multi-gpu": "gang"}), {"mode": Mode.GANG}, id="the mode by annotation"),
        pytest.param(pod({"nvshare.com/memory": "8Gi"}), {"memory": 8 << 30}, id="a cap"),
        pytest.param(pod({"nvshare.com/quantum": "30s"}), {"quantum_ms": 30_000}, id="a turn"),
        pytest.param(pod({"nvshare.com/weight": "400"}), {"weight": 400}, id="a weight"),
        pytest.param(pod({"nvshare.com/weight": "heavy"}), {}, id="a value that came past the webhook"),
        pytest.param(pod({"nvshare.com/allocation": "plain"}), {"allocation": AllocationKind.PLAIN}, id="plain memory"),
        pytest.param(pod(priority=1000), {"priority": 1000}, id="the priority class"),
    ],
)
def test_what_the_api_says_of_a_container(raw: Any, expected: Any) -> None:
    known = facts(OWNER, summarise(raw))

    assert known == PodFacts(uid="u", namespace="team", pod="train", container="main", **expected)


def test_a_static_pod_has_the_uid_that_its_control_groups_show() -> None:
    assert summarise(pod({"kubernetes.io/config.mirror": "hash"})).uid == "hash"


def test_without_a_pod_its_name_is_known_all_the_same() -> None:
    assert facts(OWNER, None) == PodFacts(namespace="team", pod="train", container="main")


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakePodResources]:
    one = FakePodResources(tmp_path / "kubelet.sock")
    yield one
    one.stop()


def test_many_askers_are_one_question_to_the_kubelet(fake: FakePodResources, tmp_path: Path) -> None:
    fake.pods = listing("GPU-1__0")
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    for _ in range(50):
        assert kubelet.owner(frozenset({"GPU-1__0"}), give_up_at=time.monotonic() + 1) == OWNER

    assert fake.calls == 1


def test_the_list_of_a_large_node_is_read(fake: FakePodResources, tmp_path: Path) -> None:
    ids = [f"GPU-{number:040d}__0" for number in range(100_000)]
    fake.pods = [*listing("GPU-1__0"), kubelet_pod("team", "large", main={"other": ids})]
    assert sum(one.ByteSize() for one in fake.pods) > 4 << 20

    assert Kubelet(tmp_path / "kubelet.sock").owner(frozenset({"GPU-1__0"}), give_up_at=time.monotonic() + 20) == OWNER


def test_what_the_kubelet_does_not_know_yet_is_asked_again(fake: FakePodResources, tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    with futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(kubelet.owner, frozenset({"GPU-1__0"}), give_up_at=time.monotonic() + 20)
        time.sleep(0.2)
        fake.pods = listing("GPU-1__0")
        assert asked.result() == OWNER


def test_a_kubelet_that_is_not_there_is_counted_and_given_up(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "nobody.sock")

    assert kubelet.owner(frozenset({"GPU-1__0"}), give_up_at=time.monotonic() + 0.1) is None
    assert kubelet.failures == 1


class Api:
    """The API, as far as the observer asks it."""

    def __init__(self) -> None:
        self.uid = "old"
        self.asked: list[str] = []

    def stop(self) -> None:
        pass

    def pod(self, _owner: Any, uid: str) -> Any:
        self.asked.append(uid)
        return summarise(pod() | {"metadata": {"uid": self.uid}}) if self.uid else None


class Clock:
    now = 0.0

    def __call__(self) -> Any:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def observer(tmp_path: Path, clock: Clock) -> Any:
    flags = [f"--control={tmp_path}/control.sock", f"--pod-resources={tmp_path}/kubelet.sock"]
    one = Observer(read_settings(build_parser().parse_args(flags), {}), clock)
    api: Any = Api()
    one.cluster = api
    return one


def who(observer: Any, uid: str = "") -> Any:
    return observer._who("k.1", frozenset({"GPU-1__0"}), uid)


def test_whose_an_allocation_is_is_asked_of_the_kubelet_once_until_it_is_forgotten(
    fake: FakePodResources, observer: Any
) -> None:
    fake.pods = listing("GPU-1__0")
    observer.cluster.uid = ""
    assert [who(observer).uid, who(observer).pod] == ["", "train"]
    assert (fake.calls, observer.owners) == (1, {"k.1": OWNER})
    observer._heard(Line("forget", {"key": "k.1"}))

    assert observer.owners == {}


def test_a_process_of_another_pod_than_the_kubelet_said_makes_it_be_asked_again(
    fake: FakePodResources, observer: Any
) -> None:
    fake.pods = listing("GPU-1__0")
    assert who(observer, "new").uid == "old"
    time.sleep(0.5)
    fake.pods[0].name, observer.cluster.uid = "train-again", "new"

    assert (who(observer, "new").pod, fake.calls) == ("train-again", 2)
    assert observer.cluster.asked == ["new", "new"]


class Hanging:
    """A card that never answers."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()

    def read(self) -> Any:
        self.asked.set()
        self.answers.wait()
        return {}

    def processes(self) -> Any:
        return self.read()


@pytest.fixture
def at_work(observer: Any) -> Iterator[Any]:
    """Return an observer with its threads, a card that never answers, and the turn process' end of its link."""
    observer.cards = Hanging()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(observer.settings.control))
        listener.listen()
        listener.settimeout(PATIENCE)
        threads = [threading.Thread(target=one, daemon=True) for one in (observer.look_for_ever, observer.follow)]
        for thread in threads:
            thread.start()
        link, _ = listener.accept()
        link.settimeout(PATIENCE)
        assert observer.cards.asked.wait(PATIENCE)
        stream = link.makefile("rwb", buffering=0)
        assert decode(stream.readline()) == Line("observe")
        yield observer, stream
        observer.stop()
        link.shutdown(socket.SHUT_RDWR)
        link.close()
        observer.cards.answers.set()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_card_that_never_answers_keeps_nobody_from_hearing_whose_an_allocation_is(
    fake: FakePodResources, at_work: Any
) -> None:
    fake.pods = listing("GPU-1__0")
    _, link = at_work
    link.write(encode(Line("who", {"key": "k.1", "devices": "GPU-1__0"})))

    assert decode(link.readline()).words["pod"] == "train"


def test_a_thread_that_hangs_is_said_to_after_minutes_and_a_slow_one_is_not(at_work: Any, clock: Clock) -> None:
    observer, _ = at_work
    clock.now = 299.0
    assert observer.ailment() == ""

    clock.now = 301.0
    assert observer.ailment() == "no look at the cards has come to an end for 301 s"
    assert "nvshare_schedulerd_observer_stalled 1" in list(expose(Snapshot(status=Status(), stalled=True)))


@pytest.mark.parametrize(
    ("amounts", "index"),
    [([], 1.0), ([5.0], 1.0), ([1.0, 1.0], 1.0), ([1.0, 0.0], 0.5), ([4.0, 0.0, 0.0, 0.0], 0.25)],
)
def test_jain(amounts: list[float], index: float) -> None:
    assert jain(amounts) == pytest.approx(index)


def test_fairness_is_of_the_last_minute() -> None:
    fairness = Fairness()
    for now, a, b in ((0, 0, 0), (10, 100, 0), (70, 200, 100), (80, 210, 110)):
        fairness.add(now, {("a", "g"): a, ("b", "g"): b})

    assert fairness.index({"g": ["a", "b"]})["g"] == pytest.approx(1.0)


STATUS = Status(
    daemon=DaemonStatus(
        containers=1, processes=2, refusals={"bad-line": 3}, limits={"lines": 7}, loop=(1, 2, 0, 0, 0), loop_us=5
    ),
    gpus=(GpuStatus(uuid="GPU-1", clients=1, holders=1, busy=0.5, busy_ms=1500),),
    containers=(ContainerStatus(key="k", namespace="team", pod='tr"ain\\', container="main"),),
    places=(
        PlaceStatus(
            key="k",
            gpu="GPU-1",
            state=State.HOLDS,
            held_us=2_500_000,
            busy_us=1_250_000,
            turns=3,
            waits=(1, 2, 0, 0, 0, 0, 0, 0),
            waited_us=7,
        ),
    ),
)


LABELS = 'gpu="GPU-1",namespace="team",pod="tr\\"ain\\\\",container="main"'


def page(**rest: Any) -> Any:
    return list(expose(Snapshot(status=STATUS, **rest)))


@pytest.mark.parametrize(
    "line",
    [
        "nvshare_schedulerd_turn_loop_up 1",
        'nvshare_schedulerd_gpu_busy_ratio{gpu="GPU-1"} 0.5',
        'nvshare_schedulerd_gpu_held_seconds_total{gpu="GPU-1"} 1.5',
        f"nvshare_schedulerd_held_seconds_total{{{LABELS}}} 2.5",
        f"nvshare_schedulerd_busy_seconds_total{{{LABELS}}} 1.25",
        'nvshare_schedulerd_refused_lines_total{code="bad-line"} 3',
        'nvshare_schedulerd_limits_reached_total{limit="lines"} 7',
        'nvshare_schedulerd_loop_seconds_bucket{le="+Inf"} 3',
        f'nvshare_schedulerd_waited_seconds_bucket{{{LABELS},le="0.01"}} 3',
        'nvshare_schedulerd_gpu_unknown_processes{gpu="GPU-1"} 2',
        'nvshare_schedulerd_gpu_fairness{gpu="GPU-1"} 0.75',
    ],
)
def test_the_page_says(line: str) -> None:
    assert line in page(strangers={"GPU-1": 2}, fairness={"GPU-1": 0.75})


def test_the_page_is_prometheus_text() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    families = {one.name for one in text_string_to_metric_families("\n".join(page()) + "\n")}
    assert {
        "nvshare_schedulerd_held_seconds",
        "nvshare_schedulerd_waited_seconds",
        "nvshare_schedulerd_turns",
    } <= families


def test_without_a_turn_process_the_page_says_so() -> None:
    assert "nvshare_schedulerd_turn_loop_up 0" in list(expose(Snapshot(status=Status())))

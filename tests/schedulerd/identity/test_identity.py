"""Who a client is, by the folder whose socket it reached: folders come and go, slots are given out again, answers late.

The observer is played by the test over the control socket; the real one has its own tests.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.wire.control import Observe, PodFacts, PodReport, encode_request
from contract.wire.line import Line, encode
from schedulerd.control.client import ControlClient
from schedulerd.identity.clients import pod_uid_of
from tests.fakes.wire.client import PATIENCE, Client
from tests.fakes.wire.node_daemon import NodeDaemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[NodeDaemon]:
    one = NodeDaemon(tmp_path, "--side-by-side=never")
    one.start()
    yield one
    if one.running.poll() is None:
        one.running.kill()
        one.running.wait()


class Cluster:
    """Answers `who` as the observer would, after a while."""

    def __init__(self, daemon: NodeDaemon, *, after: float = 0.0, **facts: str) -> None:
        self.link = ControlClient(daemon.control)
        self.link.send(encode_request(Observe()))
        self.asked: list[dict[str, str]] = []
        self.after, self.facts = after, {"uid": "u", **facts}
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            try:
                line = self.link.read()
                self.asked.append(dict(line.words))
                time.sleep(self.after)
                self.link.send(encode(Line("pod", {"key": line.words["key"], **self.facts})))
            except Exception:  # noqa: BLE001  the daemon has gone: so does the thread
                return


def client_of(socket: Path, gpus: str = "GPU-1", **words: Any) -> tuple[Client, Line]:
    client = Client(socket, container="a-lie", gpus=gpus, hello=False, **words)
    return client, client.hello()


def known_to_the_cluster(daemon: NodeDaemon, key: str, *uuids: str) -> Path:
    """Return the socket of an allocation whose facts the cluster has told before."""
    socket = daemon.allocate(key, *uuids)
    (socket.parent / "pod.json").write_text(json.dumps({"of": f"{key}.1000", "uid": "u"}))
    return socket


def test_a_socket_comes_with_its_folder_and_says_whose_gpus_they_are(daemon: NodeDaemon) -> None:
    Cluster(daemon, pod="p", namespace="n", container="c")
    _client, welcome = client_of(daemon.allocate("k1", "GPU-1", "GPU-2"), gpus="GPU-1,GPU-2")

    assert welcome.words["gpus"] == "GPU-1,GPU-2"
    assert welcome.words["mode"] == "per-device"
    assert welcome.words["container"].startswith("k1.")


def test_what_the_client_says_of_itself_is_not_believed(daemon: NodeDaemon) -> None:
    Cluster(daemon, memory="1024", weight="7")
    socket = daemon.allocate("k1", "GPU-1")
    _client, welcome = client_of(socket, weight=1000, memory=10**12, mode="gang", priority=10**6)

    assert welcome.words["memory"] == "1024"
    assert welcome.words["mode"] == "single"


def test_the_welcome_waits_for_the_cluster_and_carries_what_it_says(daemon: NodeDaemon) -> None:
    cluster = Cluster(daemon, after=0.5, mode="gang", memory="4096", allocation="plain")
    _client, welcome = client_of(daemon.allocate("k1", "GPU-1", "GPU-2"))

    assert (welcome.words["mode"], welcome.words["memory"], welcome.words["allocation"]) == ("gang", "4096", "plain")
    assert cluster.asked[0]["devices"] == "GPU-1__0,GPU-2__0"


@pytest.mark.parametrize(
    ("gpus", "said", "kind"),
    [
        pytest.param(["GPU-1"], None, "managed", id="one GPU"),
        pytest.param(["GPU-1", "GPU-2"], None, "plain", id="several: IPC and RDMA need plain memory"),
        pytest.param(["GPU-1"], "plain", "plain", id="one GPU, and the pod wants plain"),
        pytest.param(["GPU-1", "GPU-2"], "managed", "managed", id="several, and the pod wants managed"),
    ],
)
def test_the_kind_of_memory_is_the_pods_word_or_the_usual_one(
    daemon: NodeDaemon, gpus: list[str], said: str | None, kind: str
) -> None:
    words: dict[str, Any] = {"allocation": said} if said else {}
    Cluster(daemon, **words)
    _client, welcome = client_of(daemon.allocate("k1", *gpus), gpus=gpus[0])

    assert welcome.words["allocation"] == kind


def test_a_late_answer_takes_no_gpu_from_under_a_running_holder(daemon: NodeDaemon) -> None:
    """Tell a new cap late: the processes yield, as if another container waited, and connect again."""
    a, b = (client_of(known_to_the_cluster(daemon, key, "GPU-1"))[0] for key in ("ka", "kb"))
    a.want()
    a.hear("grant")
    b.want()
    a.hear("wanted")
    with ControlClient(daemon.control) as link:
        link.send(encode_request(Observe()))
        link.send(encode_request(PodReport("ka.1000", PodFacts(uid="u", memory=1024))))
        a.hear("yield")
        assert b.next(within=0.2) is None

        a.done()
        b.hear("grant")
        with pytest.raises(ConnectionResetError):
            a.next()
    _again, welcome = client_of(daemon.allocations / "ka" / "scheduler.sock")
    assert welcome.words["memory"] == "1024"


@pytest.mark.slow
def test_a_cluster_that_never_answers_costs_two_seconds_and_nobody_elses_turns(daemon: NodeDaemon) -> None:
    """Hand over another GPU meanwhile (XPUShare: 9.8 s)."""
    Cluster(daemon, after=60)
    known = daemon.allocate("known", "GPU-2")
    (daemon.allocations / "known" / "pod.json").write_text('{"of": "known.1000", "uid": "u"}')
    a, _ = client_of(known, gpus="GPU-2")
    began = time.monotonic()
    slow = threading.Thread(target=client_of, args=(daemon.allocate("k1", "GPU-1"),))
    slow.start()
    a.want()
    a.hear("grant")
    handed = time.monotonic() - began
    slow.join()

    assert handed < 1.5
    assert 1.5 < time.monotonic() - began < 10


def test_caps_are_kept_while_the_cluster_is_away(daemon: NodeDaemon) -> None:
    """Keep the caps while the API is away (XPUShare: an outage lifts all quotas)."""
    Cluster(daemon, memory="4096")
    socket = daemon.allocate("k1", "GPU-1")
    client_of(socket)[0].close()
    daemon.running.kill()
    daemon.running.wait()
    daemon.start()
    daemon.wait_for(socket)
    began = time.monotonic()
    _client, welcome = reconnect(socket)

    assert welcome.words["memory"] == "4096"
    assert time.monotonic() - began < 1.9


def reconnect(socket: Path) -> Any:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return client_of(socket)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


@pytest.mark.slow
def test_a_late_answer_with_a_cap_makes_the_client_come_again(daemon: NodeDaemon) -> None:
    cluster = Cluster(daemon, after=2.5, memory="4096")
    socket = daemon.allocate("k1", "GPU-1")
    client, welcome = client_of(socket)
    assert "memory" not in welcome.words
    with pytest.raises(ConnectionResetError):
        client.next(within=PATIENCE)
    _again, welcome = client_of(socket)

    assert welcome.words["memory"] == "4096"
    assert len(cluster.asked) == 1


def test_the_same_slots_given_out_again_are_another_container(daemon: NodeDaemon) -> None:
    cluster = Cluster(daemon, memory="1")
    socket = daemon.allocate("k1", "GPU-1", created=1.0)
    old, first = client_of(socket)
    daemon.allocate("k1", "GPU-1", created=2.0)
    _new, second = client_of(socket)

    assert first.words["container"] != second.words["container"]
    assert [one["key"] for one in cluster.asked] == [first.words["container"], second.words["container"]]
    old.close()


def test_anothers_gpu_is_refused_and_counted(daemon: NodeDaemon) -> None:
    Cluster(daemon)
    client = Client(daemon.allocate("k1", "GPU-1"), container="x", gpus="GPU-1,GPU-9", hello=False)
    client.say("hello", v=1, pid=1, gpus="GPU-1,GPU-9")
    assert client.hear("error").words["code"] == "not-yours"

    with ControlClient(daemon.control) as asking:
        daemon_status = asking.read_status().daemon
    assert daemon_status is not None
    assert daemon_status.refusals["not-yours"] == 1


def test_a_folder_that_goes_takes_its_socket_and_comes_back_anew(daemon: NodeDaemon) -> None:
    Cluster(daemon)
    socket = daemon.allocate("k1", "GPU-1")
    gone = daemon.allocations / ".k1.gone"
    (daemon.allocations / "k1").rename(gone)
    daemon.allocate("k1", "GPU-2", created=5.0)
    _client, welcome = reconnect_to_gpu(socket)

    assert welcome.words["gpus"] == "GPU-2"


def reconnect_to_gpu(socket: Path) -> Any:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return client_of(socket, gpus="GPU-2")
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def test_who_connects_and_says_nothing_is_no_error(daemon: NodeDaemon) -> None:
    """Connect as the device plugin does when it looks whether the socket answers."""
    Cluster(daemon)
    Client(daemon.allocate("k1", "GPU-1"), container="x", hello=False).close()
    with ControlClient(daemon.control) as asking:
        status = asking.read_status().daemon
    assert status is not None
    assert status.refusals == {}


def test_a_folder_whose_path_is_too_long_for_a_socket_is_passed_over(daemon: NodeDaemon) -> None:
    Cluster(daemon)
    (daemon.allocations / ("x" * 200)).mkdir(parents=True)

    assert client_of(daemon.allocate("k1", "GPU-1"))[1].verb == "welcome"
    assert "cannot listen on" in daemon.log()


def test_sigterm_takes_the_sockets_out_of_the_folders(daemon: NodeDaemon) -> None:
    socket = daemon.allocate("k1", "GPU-1")
    assert daemon.end() == 0
    assert not socket.exists()


def test_a_process_outside_pods_belongs_to_none() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert pod_uid_of(process.pid) is None
        assert pod_uid_of(0) is None
    finally:
        process.communicate(b"\n")

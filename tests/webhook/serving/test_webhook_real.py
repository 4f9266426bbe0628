"""The webhook behind a real API server: bursts, outages, replicas, certificates, and who is called at all."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from tests.fakes.load_balancer import balanced
from tests.webhook.load import bursts, realistic_pod
from tests.webhook.real import ApiClient, Server, all_policies, installed, registered, serving, wait_for_policies
from webhook.certs.files import write_set

pytestmark = pytest.mark.cluster
OPTED_IN = {"nvshare.com/injection": "enabled"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane(Options()) as running:
        running.create_namespace("on", labels=OPTED_IN)
        running.create_namespace("off")
        with installed(running, all_policies()):
            wait_for_policies(running)
            yield running


@dataclass
class Pair:
    cert: Path
    key: Path
    bundle: bytes


@pytest.fixture(scope="module")
def pair(plane: ControlPlane) -> Pair:
    made = plane.authority.vouch_for("nvshare-webhook", hosts=("127.0.0.1",))
    return Pair(made.certificate, made.key, Path(plane.authority.certificate).read_bytes())


@contextmanager
def webhook(plane: ControlPlane, pair: Pair, *arguments: str) -> Iterator[Server]:
    about = ("--kubeconfig", str(plane.kubeconfig), *arguments)
    with (
        serving(pair.cert, pair.key, *about) as server,
        installed(plane, registered(server, pair.bundle)),
    ):
        _wait_until_called(plane, server)
        yield server


def _wait_until_called(plane: ControlPlane, *servers: Server) -> None:
    client = ApiClient(plane)
    until = time.monotonic() + 20
    before = sum(server.reviews() for server in servers)
    while sum(server.reviews() for server in servers) < before + 2:  # by both configurations
        assert time.monotonic() < until
        client.create_pod("on", realistic_pod())
        time.sleep(0.1)
    client.close()


@pytest.fixture(scope="module")
def running(plane: ControlPlane, pair: Pair) -> Iterator[Server]:
    with webhook(plane, pair, "--drain-seconds", "0") as server:
        yield server


@pytest.mark.usefixtures("running")
def test_64_at_once_and_none_fails(plane: ControlPlane) -> None:
    for answers in bursts(plane, rounds=2):
        assert {status for status, _ in answers} == {201}
        assert max(took for _, took in answers) < 5.0  # the drill holds it to 0.5 s, with the machine to itself


def test_pods_without_vgpus_make_no_call(plane: ControlPlane, running: Server) -> None:
    client = ApiClient(plane)
    before = running.reviews()
    for namespace in ("on", "off", "kube-system"):
        for _ in range(10):
            client.create_pod(namespace, realistic_pod(vgpus=None))
    assert client.create_pod("off", realistic_pod()).status == 403
    assert running.reviews() == before
    client.create_pod("on", realistic_pod())
    assert running.reviews() == before + 2
    client.close()


@pytest.mark.usefixtures("running")
def test_a_namespace_is_known_the_moment_it_exists(plane: ControlPlane) -> None:
    client = ApiClient(plane)
    for number in range(5):
        plane.create_namespace(f"fresh-{number}", labels=OPTED_IN, annotations={"nvshare.com/multi-gpu": "gang"})
        answer = client.create_pod(f"fresh-{number}", realistic_pod(vgpus=2))
        assert answer.status == 201, answer.message
    client.close()


# The tests below register servers of their own in the place of the one above, so they come after it.


def test_a_pod_that_another_webhook_changed_back_is_refused(plane: ControlPlane, pair: Pair) -> None:
    """Register the validating webhook alone: its pods lack what the mutating webhook writes."""
    with serving(pair.cert, pair.key, "--kubeconfig", str(plane.kubeconfig), "--drain-seconds", "0") as server:
        mutating, validating = registered(server, pair.bundle)
        plane.kubectl("delete", "--ignore-not-found", f"{mutating['kind']}/{mutating['metadata']['name']}")
        with installed(plane, [validating]):
            client = ApiClient(plane)
            until = time.monotonic() + 20
            while (answer := client.create_pod("on", realistic_pod())).status == 201:
                assert time.monotonic() < until
                time.sleep(0.1)
            client.close()
    assert "InjectionLost: " in answer.message
    assert "/spec/containers/0/env" in answer.message


def test_while_it_is_down_plain_pods_are_created_and_others_told_what_is_down(plane: ControlPlane, pair: Pair) -> None:
    with webhook(plane, pair, "--drain-seconds", "0") as server:
        worker = server.worker()
        server.process.kill()
        os.kill(worker, signal.SIGKILL)
        server.process.wait(10)
        client = ApiClient(plane)
        plain = client.create_pod("on", realistic_pod(vgpus=None))
        for _ in range(8):  # the first few meet connections that were open
            sharing = client.create_pod("on", realistic_pod())
            if "connection refused" in sharing.message:
                break
        client.close()
    assert plain.status == 201
    assert sharing.status == 500
    assert 'failed calling webhook "mutate.nvshare.com"' in sharing.message
    assert "connection refused" in sharing.message


@dataclass
class Load:
    """Creates pods until told to stop; keeps what failed."""

    plane: ControlPlane
    failures: list[str] = field(default_factory=list)
    done: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        client = ApiClient(self.plane)
        while not self.stop.is_set():
            answer = client.create_pod("on", realistic_pod())
            self.done += 1
            if answer.status != 201:
                self.failures.append(f"{answer.status} {answer.message}")
        client.close()


@contextmanager
def load(plane: ControlPlane, *, clients: int = 8) -> Iterator[Load]:
    work = Load(plane)
    threads = [threading.Thread(target=work.run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield work
    finally:
        work.stop.set()
        for thread in threads:
            thread.join()


def test_certificates_replaced_20_times_under_load(plane: ControlPlane, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    bundle = b""
    for generation in range(21):
        write_set(tmp_path / str(generation), ("127.0.0.1",), days=2)
        bundle += (tmp_path / str(generation) / "ca.crt").read_bytes()
    folder.mkdir()
    _swap(folder, tmp_path / "0")
    with (
        webhook(plane, Pair(folder / "tls.crt", folder / "tls.key", bundle), "--drain-seconds", "0") as server,
        load(plane, clients=4) as work,
    ):
        for generation in range(1, 21):
            _swap(folder, tmp_path / str(generation))
            began = time.monotonic()
            while not server.serves((folder / "tls.crt").read_text()):
                assert time.monotonic() - began <= 2.0
                time.sleep(0.05)
    assert (work.failures, work.done > 20) == ([], True)


def _swap(folder: Path, source: Path) -> None:
    """Change the files as the kubelet changes those of a Secret: a new folder, and one rename of the link to it."""
    new = folder / f"..{source.name}"
    new.mkdir()
    for name in ("tls.crt", "tls.key"):
        shutil.copy(source / name, new / name)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..tmp"
    link.symlink_to(new.name)
    link.rename(folder / "..data")


def test_one_of_two_replicas_goes_and_nobody_notices(plane: ControlPlane, pair: Pair) -> None:
    about = ("--kubeconfig", str(plane.kubeconfig))
    with (
        serving(pair.cert, pair.key, *about, "--drain-seconds", "5") as going,
        serving(pair.cert, pair.key, *about, "--drain-seconds", "0") as staying,
        balanced(going.port, staying.port) as front,
    ):
        address = Server(staying.process, f"https://127.0.0.1:{front}", staying.metrics_url)
        with installed(plane, registered(address, pair.bundle)):
            _wait_until_called(plane, going, staying)
            with load(plane) as work:
                time.sleep(1.0)
                going.process.send_signal(signal.SIGTERM)
                assert going.process.wait(20) == 0
                time.sleep(1.0)
    assert (work.failures, work.done > 100) == ([], True)

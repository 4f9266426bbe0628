"""What a review costs, beside a minimal Go server that does the same (`yardstick/`), measured in the same run.

On a machine with neighbours, processor time is the steadier figure.  Latency is what the creation of a pod gains.
"""

import contextlib
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from tests.runners.bench import Row
from tests.webhook.cases import OPTED_IN
from tests.webhook.load import Connection, body, cost_of_a_review, realistic_pod
from tests.webhook.real import ApiClient, Server, installed, registered, serving

_ROUNDS = 3
_REVIEWS = 1000
_CREATES = 100
_YARDSTICK = Path(__file__).with_name("yardstick")


@dataclass(frozen=True)
class Rival:
    """A running server: its process and its port."""

    pid: int
    port: int


def bench() -> Iterator[Row]:
    """Measure the tables of DESIGN part 3's figures."""
    if shutil.which("go") is None:
        raise RuntimeError("there is no Go compiler to build the yardstick with")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "yardstick"
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=_YARDSTICK, check=True)
        with control_plane(Options()) as plane:
            plane.create_namespace("on", labels=OPTED_IN)
            yield from _costs(plane, program, folder)
            yield from _latencies(plane, program, folder)


@contextmanager
def _go(program: Path, plane: ControlPlane, folder: Path) -> Iterator[Rival]:
    pair = plane.authority.vouch_for("nvshare-webhook", hosts=("127.0.0.1",))
    with (folder / "go.log").open("w") as log:
        command = [str(program), "-cert", str(pair.certificate), "-key", str(pair.key)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        try:
            yield Rival(process.pid, int(process.stdout.readline()))
        finally:
            process.kill()
            process.wait()


@contextmanager
def _ours(plane: ControlPlane, folder: Path) -> Iterator[Rival]:
    pair = plane.authority.vouch_for("nvshare-webhook", hosts=("127.0.0.1",))
    about = ("--kubeconfig", str(plane.kubeconfig), "--drain-seconds", "0")
    with serving(pair.certificate, pair.key, *about, log=folder / "ours.log") as server:
        yield Rival(server.process.pid, server.port)


def _costs(plane: ControlPlane, program: Path, folder: Path) -> Iterator[Row]:
    authority = plane.authority.certificate
    review = _in_namespace_on()
    costs: dict[str, list[float]] = {"go": [], "ours": []}
    took: dict[str, list[float]] = {"go": [], "ours": []}
    with _go(program, plane, folder) as go, _ours(plane, folder) as ours:
        for _ in range(_ROUNDS):
            for name, rival in (("go", go), ("ours", ours)):
                connection = Connection(rival.port, authority)
                cost, seconds = cost_of_a_review(rival.pid, connection, reviews=_REVIEWS, data=review)
                connection.close()
                costs[name].append(cost)
                took[name] += seconds
    go_cost, our_cost = (statistics.median(costs[name]) for name in ("go", "ours"))
    yield Row(what=f"processor time a review of {len(review)} bytes, Go", value=go_cost, unit="us")
    yield Row(
        what="processor time a review, ours", value=our_cost, unit="us", limit=2.5 * go_cost, against="2.5 times Go's"
    )
    yield Row(what="the ratio of the two", value=our_cost / go_cost, unit="times", limit=2.5)
    for name in ("go", "ours"):
        yield Row(what=f"a review, one client, p50, {name}", value=statistics.median(took[name]) * 1000, unit="ms")


def _in_namespace_on() -> bytes:
    return body().replace(b'"team-a"', b'"on"')


def _latencies(plane: ControlPlane, program: Path, folder: Path) -> Iterator[Row]:
    """Measure pod creates with no webhook, with Go's and with ours, in turn: neighbours disturb all three alike."""
    client = ApiClient(plane)
    bundle = Path(plane.authority.certificate).read_bytes()
    found: dict[str, list[float]] = {"none": [], "go": [], "ours": []}
    with _go(program, plane, folder) as go, _ours(plane, folder) as ours:
        for _ in range(3):
            for name, rival in (("none", None), ("go", go), ("ours", ours)):
                with _registered(plane, rival, bundle):
                    _settle(client, is_called=rival is not None)
                    found[name] += [_seconds(client) for _ in range(_CREATES)]
    client.close()
    none, with_go, with_ours = (statistics.median(found[name]) * 1000 for name in ("none", "go", "ours"))
    yield Row(what="a pod's creation, p50, without a webhook", value=none, unit="ms")
    yield Row(what="added by Go's (mutate and validate)", value=with_go - none, unit="ms")
    limit = 1.5 * (with_go - none)
    yield Row(what="added by ours", value=with_ours - none, unit="ms", limit=limit, against="1.5 times Go's")


@contextmanager
def _registered(plane: ControlPlane, rival: Rival | None, bundle: bytes) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if rival is not None:
            address = Server(None, f"https://127.0.0.1:{rival.port}", "")  # type: ignore[arg-type]  # only its port is used
            stack.enter_context(installed(plane, registered(address, bundle)))
        yield


def _settle(client: ApiClient, *, is_called: bool) -> None:
    """Wait until the configuration is in force, and a little longer, so that connections are warm."""
    until = time.monotonic() + 20
    while _is_completed(client) is not is_called:
        assert time.monotonic() < until
        time.sleep(0.1)
    for _ in range(20):
        client.create_pod("on", realistic_pod())


def _is_completed(client: ApiClient) -> bool:
    made = client.create_pod("on", realistic_pod())
    assert made.status == 201, made.message
    return any(volume["name"] == "nvshare-hook" for volume in made.body["spec"]["volumes"])


def _seconds(client: ApiClient) -> float:
    began = time.perf_counter()
    client.create_pod("on", realistic_pod())
    return time.perf_counter() - began

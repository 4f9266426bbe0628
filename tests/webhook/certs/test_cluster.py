"""The rotation against a real API server, which calls two replicas through the real Service object."""

import base64
import re
import threading
from collections.abc import Callable

import pytest

from testbed.cluster.kubernetes.control_plane import ControlPlane
from testbed.cluster.machine.processes import wait_until
from tests.fakes.webhook_replica import Replica
from tests.webhook.certs.rotations import dies_after, figures, rotate_until
from tests.webhook.certs.scene import BASE, NAMESPACE, is_whole, run, vgpu_pod
from webhook.certs.core.phases import Asked

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def create(plane: ControlPlane, namespace: str) -> str:
    return plane.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=vgpu_pod(), check=False)


def test_the_replicas_make_the_first_certificate_and_the_api_server_trusts_it(
    clean: ControlPlane, running: list[Replica], opted_in: str
) -> None:
    assert "created" in create(clean, opted_in)
    assert [replica.deliveries for replica in running] == [1, 1]


@pytest.mark.parametrize("asked", [Asked.LEAF, Asked.AUTHORITY])
def test_a_rotation_ends_whole_with_pods_created_all_along(
    clean: ControlPlane, running: list[Replica], opted_in: str, asked: Asked
) -> None:
    assert len(running) == 2
    with creating(lambda: create(clean, opted_in)) as answers:
        said = run(clean, asked)
        wait_until(lambda: len(answers) > 3, what="some pods were created", seconds=30)

    assert is_whole(clean), said
    assert [answer for answer in answers if "created" not in answer] == []


def test_no_pod_of_hundreds_is_refused_while_the_ca_is_replaced(plane: ControlPlane, running: list[Replica]) -> None:
    assert "0 refused" in figures(plane, running, lambda plane, load: rotate_until(plane, load, 600))


def test_applying_the_manifests_again_leaves_the_bundle_alone(clean: ControlPlane, running: list[Replica]) -> None:
    assert len(running) == 2
    for how in (("apply", "-k"), ("apply", "--server-side", "--force-conflicts", "-k"), ("apply", "-k")):
        clean.kubectl(*how, str(BASE))
        assert is_whole(clean), how


@pytest.mark.parametrize(
    "breakage",
    [
        pytest.param(("delete", "secret", "nvshare-webhook-tls"), id="deleted"),
        pytest.param(
            ("patch", "secret", "nvshare-webhook-tls", "-p", '{"data": {"tls.crt": "Z2FyYmFnZQ=="}}'), id="corrupted"
        ),
        pytest.param(("patch", "secret", "nvshare-webhook-tls", "-p", '{"data": null}'), id="emptied"),
    ],
)
def test_the_replicas_repair_a_broken_secret_without_a_refused_pod(
    clean: ControlPlane, running: list[Replica], opted_in: str, breakage: tuple[str, ...]
) -> None:
    assert len(running) == 2
    with creating(lambda: create(clean, opted_in)) as answers:
        clean.kubectl(*breakage, "-n", NAMESPACE)
        wait_until(lambda: is_whole(clean), what="the Secret is repaired", seconds=30)

    assert [answer for answer in answers if "created" not in answer] == []


def test_a_lost_bundle_is_written_again_and_until_then_the_refusal_says_why(
    clean: ControlPlane, running: list[Replica], opted_in: str
) -> None:
    assert len(running) == 2
    take = '[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]'
    clean.kubectl("patch", "mutatingwebhookconfiguration", "nvshare-webhook", "--type=json", "-p", take)
    answers = [create(clean, opted_in)]

    wait_until(lambda: is_whole(clean), what="the bundle is there again", seconds=20)

    assert "created" in create(clean, opted_in)
    assert all("created" in answer or re.search("mutate.nvshare.com.*certificate", answer) for answer in answers)


@pytest.mark.parametrize("step", [2, 4, 7], ids=["both published", "swapped", "the old one withdrawn"])
def test_killed_after_a_step_by_sigkill_the_next_run_ends_in_the_same_state(
    clean: ControlPlane, running: list[Replica], opted_in: str, step: int
) -> None:
    """Try three of the eight steps; the drill tries each under load, and the simulation always tries each."""
    assert len(running) == 2
    with creating(lambda: create(clean, opted_in)) as answers:
        assert dies_after(clean, step)
        run(clean, Asked.DUE)

    assert is_whole(clean)
    assert [answer for answer in answers if "created" not in answer] == []


class creating:  # noqa: N801  reads as a word in `with`
    """Creates pods, one after another on fresh connections, while the block runs; the answers."""

    def __init__(self, once: Callable[[], str]) -> None:
        self._once = once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self.answers: list[str] = []

    def _go_on(self) -> None:
        while not self._stop.is_set():
            self.answers.append(self._once())

    def __enter__(self) -> list[str]:
        self._thread.start()
        return self.answers

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)


def test_the_bundle_stands_under_a_field_manager_of_its_own(clean: ControlPlane, running: list[Replica]) -> None:
    assert len(running) == 2
    shown = clean.kubectl(
        "get", "validatingwebhookconfiguration", "nvshare-webhook", "-o", "yaml", "--show-managed-fields"
    )
    owner = shown.split("manager: nvshare-webhook-certs")[0]

    assert owner.count("f:caBundle") == 1
    assert base64.b64encode(b"-----BEGIN").decode()[:8] in shown

"""`certs rotate` and `certs status` as an operator types them: their words and exit codes."""

import json
from pathlib import Path

import pytest

from testbed.cluster.kubernetes.control_plane import ControlPlane
from tests.fakes.webhook_replica import Replica
from tests.webhook.certs.command import NOBODY, certs
from webhook.certs.cli import WHAT
from webhook.certs.core.phases import Asked

IN_A_HURRY = ("--trust-seconds", "0.5", "--linger-seconds", "0.5", "--poll-seconds", "0.1")


def test_the_words_of_what_are_the_cores() -> None:
    assert sorted(WHAT) == sorted(Asked)


@pytest.mark.parametrize(
    ("words", "content", "said"),
    [
        pytest.param(("status",), "", "/nowhere is no kubeconfig", id="a kubeconfig that is not there"),
        pytest.param(("status",), "some words", "is no kubeconfig that can be used", id="one of plain text"),
        pytest.param(("status",), "a: [", "is no kubeconfig that can be used", id="one that is no YAML"),
        pytest.param(("status",), "contexts: 3", "is no kubeconfig that can be used", id="one of other parts"),
        pytest.param(("rotate", "--leaf-days", "0"), NOBODY, "--leaf-days must be more than 0", id="a life of no time"),
        pytest.param(("rotate", "--leaf-renew-days", "90"), NOBODY, "must live longer", id="renewed before it is made"),
        pytest.param(("rotate", "--urgent-hours", "720"), NOBODY, "lower --urgent-hours", id="always urgent"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: tuple[str, ...], content: str, said: str, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(content)

    done = certs(*words, kubeconfig=kubeconfig if content else "/nowhere")

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_rotate_then_status_on_a_real_api_server(clean: ControlPlane, running: list[Replica]) -> None:
    assert len(running) == 2
    rotated = certs("rotate", "--what", "authority", *IN_A_HURRY, kubeconfig=clean.kubeconfig)
    status = certs("status", "--output", "json", kubeconfig=clean.kubeconfig)
    text = certs("status", kubeconfig=clean.kubeconfig)

    assert rotated.returncode == 0, rotated.stderr
    assert "the old CA is trusted nowhere" in rotated.stdout
    assert (status.returncode, text.returncode) == (0, 0)
    found = json.loads(status.stdout)
    assert found["phase"] == "settled"
    assert found["serving_days_left"] > 29
    assert set(found["replicas"].values()) == {"serves the certificate"}
    assert "BEGIN" not in status.stdout + text.stdout + rotated.stdout
    assert text.stdout.startswith("phase          settled")


@pytest.mark.slow
def test_a_rotation_that_cannot_end_says_who_it_waits_for_and_exits_with_3(
    clean: ControlPlane, running: list[Replica]
) -> None:
    port = running[1].port
    running[1].stop()

    done = certs("rotate", "--what", "leaf", "--patience-seconds", "1", *IN_A_HURRY, kubeconfig=clean.kubeconfig)
    status = certs("status", kubeconfig=clean.kubeconfig)

    assert done.returncode == 3
    assert f":{port} does not finish a TLS handshake" in done.stderr
    assert "Every certificate that was trusted still is" in done.stderr
    assert status.returncode == 1
    assert f":{port} does not finish" in status.stdout

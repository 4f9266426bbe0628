"""The fixtures themselves: skips that are loud, failures that explain themselves."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cluster.machine.processes import marked_pids, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
USES = "def test_a(api_server): pass\ndef test_b(api_server): pass\ndef test_plain(): pass\n"
FAILS = """
def test_a(api_server, namespace):
    container = {"name": "main", "image": "any"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-pod", "namespace": namespace}}
    api_server.apply({**pod, "spec": {"containers": [container]}})
    assert False
"""


def pytest_run(folder: Path, source: str, **environment: str) -> str:
    """Return what a separate pytest with the plugin says of a test file."""
    (folder / "test_it.py").write_text(source)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.plugins.kubernetes",
        "-ra",
        "--rootdir",
        str(folder),
        str(folder),
    ]
    settings = {**os.environ, "CI": "", **environment}
    return subprocess.run(command, cwd=REPOSITORY, env=settings, capture_output=True, text=True, check=False).stdout


def test_tests_that_cannot_run_here_are_skipped_loudly_with_the_reason(tmp_path: Path) -> None:
    said = pytest_run(tmp_path, USES, KUBEBUILDER_ASSETS="/nowhere")

    assert "2 tests on a real Kubernetes were NOT run" in said
    assert "because KUBEBUILDER_ASSETS=/nowhere has no etcd" in said
    assert "1 passed, 2 skipped" in said


def test_in_ci_what_cannot_run_is_a_failure(tmp_path: Path) -> None:
    said = pytest_run(tmp_path, USES, KUBEBUILDER_ASSETS="/nowhere", CI="true")

    assert "no real Kubernetes here: KUBEBUILDER_ASSETS=/nowhere has no etcd" in said
    assert "1 passed, 2 errors" in said


def test_tests_that_use_the_fixtures_can_be_left_out_by_mark(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = cluster: c\n  node: n\naddopts = -m 'not cluster'\n")

    assert "1 passed, 2 deselected" in pytest_run(tmp_path, USES, KUBEBUILDER_ASSETS="/nowhere")


HANGS = """
import time
def test_a(api_server):
    print(api_server.run.name, flush=True)
    time.sleep(600)
"""


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_killed_session_takes_its_api_server_along(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.plugins.kubernetes", "-s", "-q", str(tmp_path)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        run = next(line.strip() for line in session.stdout if re.fullmatch("[0-9a-f]{6}\n", line))
        assert len(set(marked_pids(run))) == 2
        session.send_signal(number)
        session.wait(60)

    wait_until(lambda: not set(marked_pids(run)), what="its etcd and API server have ended", seconds=60)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_failure_brings_its_pods_and_logs(tmp_path: Path) -> None:
    said = pytest_run(tmp_path, FAILS)

    assert "1 failed" in said
    assert "a-pod   0/1" in said
    assert "last lines of kube-apiserver.log" in said

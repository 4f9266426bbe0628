"""A cluster leaves nothing behind, whether it is ended, or killed and cleaned up by the next one."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testbed.cluster import cache, pins
from testbed.cluster.errors import MissingError
from testbed.cluster.kubernetes.node import check_machine
from testbed.cluster.machine import listing
from tests.plugins.kubernetes import unavailable
from tests.system.cluster.runs_apart import CRASHING, REPOSITORY, cli, environment_apart

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture
def own_machine(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Return an environment whose runs are apart from a developer's own `make cluster-up`."""
    try:
        check_machine(say=print)
    except MissingError as error:
        unavailable(error)
    environment = environment_apart(str(tmp_path))
    yield environment
    subprocess.run(cli("down"), env=environment, cwd=REPOSITORY, check=False)


def said_by(*words: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run(cli(*words), env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}exit {done.returncode}"


def run_a_pod(kubeconfig: str) -> None:
    """Run a pod that sleeps, so that its container is there when the cluster goes."""
    kubectl = next(cache.root().glob(f"kubernetes-{pins.KUBERNETES}-*/kubectl"))
    base = [str(kubectl), "--kubeconfig", kubeconfig]
    # the controller that makes service accounts may be a moment late
    subprocess.run([*base, "wait", "--for=create", "serviceaccount/default", "--timeout=180s"], check=True)
    run = ["run", "sleeper", f"--image={pins.BUSYBOX_IMAGE}", "--image-pull-policy=Never", "--", "sleep", "3000"]
    subprocess.run([*base, *run], check=True)
    subprocess.run([*base, "wait", "--for=condition=Ready", "pod/sleeper", "--timeout=180s"], check=True)


def test_after_down_the_machine_is_as_it_was_before_up(own_machine: Mapping[str, str]) -> None:
    before = listing.machine()
    said = said_by("up", "--no-image", environment=own_machine)
    kubeconfig = re.search(r"KUBECONFIG=(\S+/([0-9a-f]{6})/\S+)", said)
    assert kubeconfig is not None, said
    run_a_pod(kubeconfig[1])
    ours = {kubeconfig[2]}
    during = listing.without_other_runs(listing.machine(), ours)
    kinds = {line.partition(" ")[0] for line in during - before}
    assert {"process", "link", "route", "control"} <= kinds  # else this test sees nothing

    again = said_by("up", "--no-image", environment=own_machine)
    assert "is up already" in again
    assert "exit 1" in again

    assert "nothing of it is left\nexit 0" in said_by("down", environment=own_machine)
    assert listing.without_other_runs(listing.machine(), ours) - before == set()
    assert before - listing.machine() == {line for line in before - listing.machine() if listing.names_a_run(line)}
    assert "nothing was running\nexit 0" in said_by("down", environment=own_machine)


def test_leftovers_of_a_killed_run_are_removed_by_the_next_run(own_machine: Mapping[str, str]) -> None:
    before = listing.machine()
    command = [sys.executable, "-c", CRASHING]
    with subprocess.Popen(command, env=own_machine, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as crashing:
        assert crashing.stdout is not None
        name, kubeconfig = crashing.stdout.readline().split()
        run_a_pod(kubeconfig)
        crashing.send_signal(signal.SIGKILL)
    assert listing.without_other_runs(listing.machine(), {name}) - before != set()

    said = said_by("down", environment=own_machine)

    assert f"removing what run {name} left behind" in said
    assert listing.without_other_runs(listing.machine(), {name}) - before == set()

"""The real webhook, told to take its certificate from the cluster: unready without one, then serving it by itself."""

import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from testbed.cluster.kubernetes.control_plane import ControlPlane
from testbed.cluster.machine.processes import wait_until
from tests.webhook.certs import scene
from webhook.certs import probe
from webhook.certs.core.errors import StandsStill
from webhook.certs.core.phases import Asked

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def served(clean: ControlPlane, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Start the webhook; yield its URL and the URL of its metrics."""
    user = f"system:serviceaccount:{scene.NAMESPACE}:nvshare-webhook"
    kubeconfig = clean.kubeconfig_for(user, groups=("system:serviceaccounts", "system:authenticated"))
    program = Path(sys.executable).with_name("nvshare-webhook")
    flags = ["--certificate-from", "secret", "--kubeconfig", str(kubeconfig), "--host", "127.0.0.1", "--port", "0"]
    flags += ["--metrics-port", "0", "--log-format", "text", "--drain-seconds", "0"]
    log = tmp_path / "webhook.log"
    with log.open("w") as file, subprocess.Popen([program, "serve", *flags], stdout=file, stderr=file) as process:
        try:
            pattern = r"serving https://(\S+), metrics on (\S+)"
            wait_until(lambda: re.search(pattern, log.read_text()) is not None, what="it serves", seconds=60)
            found = re.search(pattern, log.read_text())
            assert found is not None
            yield found.group(1), found.group(2)
        finally:
            process.terminate()


def ready(address: str) -> bool:
    try:
        with urllib3.PoolManager(cert_reqs=ssl.CERT_NONE, retries=False, timeout=5) as http:
            return http.request("GET", f"https://{address}/readyz").status == 200
    except urllib3.exceptions.HTTPError:
        return False


def shown(address: str) -> bytes | str:
    host, _, port = address.partition(":")
    (found,) = probe.served([(host, int(port))], "nvshare-webhook.nvshare-system.svc", seconds=5).values()
    return found


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")  # nobody knows its first one yet
def test_it_makes_its_first_certificate_and_follows_a_renewal(clean: ControlPlane, served: tuple[str, str]) -> None:
    address, metrics = served
    wait_until(lambda: ready(address), what="it is ready with a certificate of its own making", seconds=60)
    first = shown(address)
    assert isinstance(first, bytes)

    cluster = scene.rotator(clean)
    with pytest.raises(StandsStill, match="no replica of the webhook is ready"):
        scene.run(clean, Asked.LEAF, patience_seconds=1)

    wait_until(lambda: shown(address) not in (first, ""), what="it serves the renewed certificate", seconds=20)
    parts, _ = cluster.read(now=scene.now())
    assert parts.serving is not None
    said = urllib3.request("GET", metrics, timeout=5).data.decode()
    ends = re.search(r"^nvshare_webhook_certificate_not_after_seconds (\S+)", said, re.MULTILINE)
    assert ends is not None
    assert float(ends.group(1)) > scene.now().timestamp() + 29 * 86400

"""A control plane that calls webhooks through a Service without a node: it routes to the endpoints by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane, Options, control_plane
from tests.cluster.errors import MissingError
from tests.cluster.fixtures import unavailable
from tests.webhook_certs.replica import Replica, own_address
from webhook.certs.settings import Settings

BASE = Path(__file__).parents[2] / "manifests" / "base"
NAMESPACE = "nvshare-system"
QUICK = Settings(trust_seconds=0.5, linger_seconds=0.5, patience_seconds=20, poll_seconds=0.1, watch_seconds=1)
"""One API server, on this machine: what is written is seen within a second."""


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    try:
        with control_plane(Options(arguments=("--enable-aggregator-routing=true",))) as running:
            running.kubectl("apply", "-k", str(BASE))
            yield running
    except MissingError as error:
        unavailable(error)


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The plane with everything installed but a certificate, as an apply leaves it."""
    _forget(plane)
    plane.kubectl("apply", "-k", str(BASE))
    yield plane
    _forget(plane)


def _forget(plane: ControlPlane) -> None:
    plane.kubectl("delete", "secret,lease,endpointslice", "--all", "-n", NAMESPACE)
    for kind in ("mutating", "validating"):
        plane.kubectl("delete", f"{kind}webhookconfiguration", "nvshare-webhook", "--ignore-not-found")


def announce(plane: ControlPlane, running: list[Replica]) -> None:
    """What the endpoint controller would write for ready replicas, a slice a port."""
    for number, replica in enumerate(running):
        replica.ready.wait(30)
        plane.apply(_slice(f"nvshare-webhook-{number}", replica.port))


def _slice(name: str, port: int) -> dict[str, object]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "nvshare-webhook"}},
        "addressType": "IPv4",
        "ports": [{"name": "webhook", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
    }


def vgpu_pod(name: str = "one") -> str:
    """A pod with one vGPU."""
    container = {"name": "main", "image": "example/image", "resources": {"limits": {"nvshare.com/gpu": 1}}}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    )

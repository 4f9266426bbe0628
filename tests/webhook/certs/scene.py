"""A control plane that calls webhooks through the Service without a node, and what is installed in it.

`--enable-aggregator-routing` makes the API server go to the Service's endpoints by itself.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from adapters.kubernetes.client import connect
from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from testbed.cluster.machine.processes import wait_until
from tests.fakes.webhook_replica import Replica, own_address, replicas
from webhook.certs.cluster import Cluster
from webhook.certs.core import secret
from webhook.certs.core.phases import Asked
from webhook.certs.core.rotation import Surroundings, rotate
from webhook.certs.core.secret import Phase
from webhook.certs.core.settings import Settings

BASE = Path(__file__).parents[3] / "manifests" / "base"
NAMESPACE = "nvshare-system"
QUICK = Settings(trust_seconds=0.5, linger_seconds=0.5, patience_seconds=20, poll_seconds=0.1, watch_seconds=1)
"""One API server, on this machine: what is written is seen within a second."""


@contextmanager
def installed_plane() -> Iterator[ControlPlane]:
    """Start a control plane with the base manifests applied."""
    with control_plane(Options(arguments=("--enable-aggregator-routing=true",))) as running:
        running.kubectl("apply", "-k", str(BASE))
        yield running


@contextmanager
def fresh(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Install everything but a certificate, as `kubectl apply` leaves it."""
    forget(plane)
    plane.kubectl("apply", "-k", str(BASE))
    yield plane
    forget(plane)


def forget(plane: ControlPlane) -> None:
    plane.kubectl("delete", "secret,lease,endpointslice", "--all", "-n", NAMESPACE)
    for kind in ("mutating", "validating"):
        plane.kubectl("delete", f"{kind}webhookconfiguration", "nvshare-webhook", "--ignore-not-found")


@contextmanager
def two_replicas(plane: ControlPlane, folder: Path) -> Iterator[list[Replica]]:
    """Start two replicas that have made their first certificate themselves, and announce them to the Service."""
    views = [account_view(plane, "nvshare-webhook", f"replica-{number}") for number in range(2)]
    with replicas(views, folder) as both:
        announce(plane, both)
        wait_until(lambda: is_whole(plane), what="the first certificate is trusted", seconds=20)
        yield both


def account_view(plane: ControlPlane, account: str, me: str) -> Cluster:
    """Return the cluster as a service account sees it, with only the roles of manifests/base."""
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
    return Cluster(connect(str(plane.kubeconfig_for(user, groups=groups))), QUICK, me)


def rotator(plane: ControlPlane) -> Cluster:
    return account_view(plane, "nvshare-webhook-certs", "rotator")


def run(plane: ControlPlane, asked: Asked, **changed: float) -> list[str]:
    """Run a rotation with the account of the CronJob; return its output."""
    said: list[str] = []
    settings = replace(QUICK, **changed)  # type: ignore[arg-type]
    rotate(rotator(plane), asked, settings, Surroundings(sleep=time.sleep, tell=said.append))
    return said


def is_whole(plane: ControlPlane) -> bool:
    """Tell whether the phase is settled, both replicas serve the pair, and exactly its CA is trusted."""
    cluster = rotator(plane)
    parts, _ = cluster.read(now=now())
    seen = cluster.see(dial=True)
    leaf = secret.to_der(parts.serving.certificate) if parts.serving else None
    return (
        parts.phase is Phase.SETTLED
        and len(seen.bundles) >= 2
        and all(bundle == parts.trusted() for bundle in seen.bundles.values())
        and len(seen.served) == 2
        and all(found == leaf for found in seen.served.values())
    )


def opted_in_namespace(plane: ControlPlane) -> str:
    return plane.create_namespace(f"t-{os.urandom(4).hex()}", labels={"nvshare.com/injection": "enabled"})


def announce(plane: ControlPlane, running: list[Replica]) -> None:
    """Write what the endpoint controller would write for ready replicas: one slice a port."""
    for number, replica in enumerate(running):
        replica.ready.wait(30)
        plane.apply(endpoints(f"nvshare-webhook-{number}", [replica.port]))


def now() -> datetime:
    return datetime.now(UTC)


def endpoints(name: str, ports: list[int]) -> dict[str, object]:
    """Return an EndpointSlice of the webhook's Service: a ready replica on each port, or none."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "nvshare-webhook"}},
        "addressType": "IPv4",
        "ports": [{"name": "webhook", "port": port, "protocol": "TCP"} for port in ports],
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}} for _ in ports],
    }


def vgpu_pod(name: str = "one") -> str:
    """Return a pod with one vGPU."""
    container = {"name": "main", "image": "example/image", "resources": {"limits": {"nvshare.com/gpu": 1}}}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    )

"""The cluster as a rotation needs it, by a real API server: Secret, configurations, Lease, endpoints.

The rule it owns: objects stay JSON, so that fields that we do not know survive.  The CA bundle is written by
server-side apply under a field manager of its own.  The manifests leave it out, so `kubectl apply` of them does not
remove it.
"""

import base64
import binascii
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from adapters import errors as adapters
from adapters.kubernetes.client import APPLY_PATCH, JSON, ApiServer, Json, path_of
from adapters.kubernetes.watch import Collection, events, open_watch
from webhook.certs import probe
from webhook.certs.core import lease, secret
from webhook.certs.core.errors import CertificateError, Conflict, Unreachable
from webhook.certs.core.phases import Seen
from webhook.certs.core.secret import Bundle, Material
from webhook.certs.core.settings import Settings

FIELD_MANAGER = "nvshare-webhook-certs"
_KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_EARLY_SECONDS = 0.5
"""A watch that ends sooner, without an event, is broken."""
_LABELS = {"app.kubernetes.io/name": "nvshare-webhook", "app.kubernetes.io/part-of": "nvshare-guard"}


@dataclass(slots=True)
class Cluster:
    """The cluster for a rotation (`rotation.World`), and the watch for `keeper.keep`."""

    api: ApiServer
    settings: Settings
    me: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")

    # ---------------------------------------------------------------- Secret
    def read(self, *, now: datetime) -> tuple[Material, str]:
        found = self._find(self._secret_path())
        if found is None:
            return Material(), ""
        parts, _ = secret.read(_decode(found.get("data") or {}), self.settings.server_names, now=now)
        return parts, found["metadata"]["resourceVersion"]

    def faults(self, *, now: datetime) -> tuple[str, ...]:
        """Return a sentence for each part of the Secret that cannot be used."""
        found = self._find(self._secret_path())
        if found is None:
            return (f"there is no Secret {self.settings.namespace}/{self.settings.secret}",)
        return secret.read(_decode(found.get("data") or {}), self.settings.server_names, now=now)[1]

    def write(self, parts: Material, version: str) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in secret.write(parts).items()}
        metadata: Json = {"name": self.settings.secret, "namespace": self.settings.namespace, "labels": _LABELS}
        body: Json = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data}
        if not version:
            self._call("POST", self._namespaced("/api/v1", "secrets"), body)
            return
        found = self._find(self._secret_path())
        if found is None:
            raise Conflict(f"the Secret {self.settings.secret} was deleted meanwhile")
        body["type"] = found.get("type", "Opaque")
        metadata |= {"resourceVersion": version, "labels": (found["metadata"].get("labels") or {}) | _LABELS}
        self._call("PUT", self._secret_path(), body)

    def wait_for_change(self, version: str, *, seconds: float) -> None:
        """Return when the Secret has another version than this, or after `seconds`."""
        query = {"fieldSelector": f"metadata.name={self.settings.secret}"}
        secrets, began = Collection(self._namespaced("/api/v1", "secrets"), query), time.monotonic()
        with _translated(), closing(open_watch(self.api, secrets, seconds=seconds)) as stream:
            for event in events(stream):
                if event.kind == "DELETED" or (event.kind != "BOOKMARK" and event.version != version):
                    return
        if time.monotonic() - began < _EARLY_SECONDS:
            raise Unreachable("the watch on the Secret ended at once: the API server, or a proxy, is not ready")

    # ---------------------------------------------------------------- configurations and replicas
    def see(self, *, dial: bool) -> Seen:
        bundles: dict[str, Bundle] = {}
        for kind in _KINDS:
            found = self._find(self._configuration_path(kind)) or {}
            for entry in found.get("webhooks") or ():
                bundle = _decode({"ca": entry["clientConfig"].get("caBundle") or ""})["ca"]
                bundles[f"{kind} {self.settings.configuration}, {entry['name']}"] = secret.read_bundle(bundle)
        return Seen(bundles, self._served() if dial else {})

    def publish(self, bundle: Bundle) -> None:
        encoded = base64.b64encode(secret.write_bundle(bundle)).decode()
        for kind in _KINDS:
            found = self._find(self._configuration_path(kind))
            names = [entry["name"] for entry in (found or {}).get("webhooks") or ()]
            if names:
                self._apply(kind, [{"name": name, "clientConfig": {"caBundle": encoded}} for name in names])

    def _apply(self, kind: str, webhooks: list[Json]) -> None:
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self.settings.configuration},
            "webhooks": webhooks,
        }
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        self._call("PATCH", self._configuration_path(kind), body, query, APPLY_PATCH)

    def _served(self) -> dict[str, bytes | str]:
        query = {"labelSelector": f"kubernetes.io/service-name={self.settings.service}"}
        slices = self._call("GET", self._namespaced("/apis/discovery.k8s.io/v1", "endpointslices"), query=query)
        endpoints = sorted({endpoint for item in slices.get("items", ()) for endpoint in _ready(item)})
        return probe.served(endpoints, self.settings.server_names[0], seconds=self.settings.dial_seconds)

    # ---------------------------------------------------------------- Lease
    def hold(self, *, now: datetime) -> str:
        found = self._find(self._lease_path())
        spec = (found or {}).get("spec") or {}
        other = lease.holder(spec, self.me, now=now)
        if other:
            return other
        try:
            self._write_lease(found, lease.claim(spec, self.me, now=now, seconds=self.settings.lease_seconds))
        except Conflict:
            return "another one, which was faster,"
        return ""

    def release(self) -> None:
        try:
            found = self._find(self._lease_path())
            if found and (found.get("spec") or {}).get("holderIdentity") == self.me:
                self._write_lease(found, lease.free(found["spec"], now=datetime.now().astimezone()))
        except CertificateError:
            return  # the Lease runs out by itself

    def _write_lease(self, found: Json | None, spec: Json) -> None:
        if found is not None:
            self._call("PUT", self._lease_path(), {**found, "spec": spec})
            return
        metadata = {"name": self.settings.lease, "namespace": self.settings.namespace, "labels": _LABELS}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        self._call("POST", self._namespaced("/apis/coordination.k8s.io/v1", "leases"), body)

    # ---------------------------------------------------------------- paths and calls
    def _namespaced(self, group: str, plural: str, *name: str) -> str:
        return path_of(group, "namespaces", self.settings.namespace, plural, *name)

    def _secret_path(self) -> str:
        return self._namespaced("/api/v1", "secrets", self.settings.secret)

    def _lease_path(self) -> str:
        return self._namespaced("/apis/coordination.k8s.io/v1", "leases", self.settings.lease)

    def _configuration_path(self, kind: str) -> str:
        return path_of("/apis/admissionregistration.k8s.io/v1", _KINDS[kind], self.settings.configuration)

    def _find(self, path: str) -> Json | None:
        with _translated():
            return self.api.find(path)

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Json:
        with _translated():
            return self.api.call(method, path, body, query=query, content_type=content_type)


@contextmanager
def _translated() -> Iterator[None]:
    """Turn the errors of the API server into the errors of this package."""
    try:
        yield
    except adapters.Conflict as error:
        raise Conflict(f"another writer was faster ({error})") from error
    except adapters.Forbidden as error:
        role = "this needs the role nvshare-webhook-certs of manifests/base/rbac-certificates.yaml"
        raise Unreachable(f"{error}: {role}") from error
    except adapters.AdapterError as error:
        raise Unreachable(str(error)) from error


def _decode(data: Mapping[str, str]) -> dict[str, bytes]:
    decoded = {}
    for key, text in data.items():
        try:
            decoded[key] = base64.b64decode(text)
        except (binascii.Error, ValueError):
            decoded[key] = b""
    return decoded


def _ready(item: Json) -> Iterator[tuple[str, int]]:
    ports = [port["port"] for port in item.get("ports") or () if port.get("name") == "webhook"]
    for endpoint in item.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready", True) and ports:
            yield from ((address, ports[0]) for address in endpoint.get("addresses") or ())

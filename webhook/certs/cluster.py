"""The rotation's world made of a real API server: Secret, configurations, Lease, endpoints.

Objects are JSON throughout, so that fields we do not know survive.  The CA bundle is written by server-side apply under
a field manager of its own, and the manifests leave it out: `kubectl apply` of them does not undo it.
May import the `kubernetes` client and this package.
"""

import base64
import binascii
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3.exceptions

from webhook.certs import probe
from webhook.certs.core import lease, secret
from webhook.certs.core.errors import CertificateError, Conflict, Unreachable
from webhook.certs.core.phases import Seen
from webhook.certs.core.secret import Bundle, Material
from webhook.certs.core.settings import Settings

Json = dict[str, Any]

FIELD_MANAGER = "nvshare-webhook-certs"
_KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_CALL_SECONDS = 10
_HEALTHY = 300
_FAULTS = (kubernetes.client.ApiException, kubernetes.config.ConfigException, urllib3.exceptions.HTTPError, OSError)
_LABELS = {"app.kubernetes.io/name": "nvshare-webhook", "app.kubernetes.io/part-of": "nvshare-guard"}


@dataclass(slots=True)
class Cluster:
    """Implements `rotation.World`, and the watch that `keep` needs."""

    client: kubernetes.client.ApiClient
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
        """What cannot be used of the Secret, in sentences."""
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
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self.settings.secret}",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        path = self._namespaced("/api/v1", "secrets")
        response = self._send("GET", path, query=query, seconds=seconds + 5, is_stream=True)
        try:
            for event in _events(response):
                found = event.get("object") or {}
                if event.get("type") == "DELETED" or found.get("metadata", {}).get("resourceVersion") != version:
                    return
        finally:
            response.close()

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
        self._call("PATCH", self._configuration_path(kind), body, query, "application/apply-patch+yaml")

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
            return "another one, faster than us,"
        return ""

    def release(self) -> None:
        try:
            found = self._find(self._lease_path())
            if found and (found.get("spec") or {}).get("holderIdentity") == self.me:
                self._write_lease(found, lease.free(found["spec"], now=datetime.now().astimezone()))
        except CertificateError:
            return  # it runs out by itself

    def _write_lease(self, found: Json | None, spec: Json) -> None:
        if found is not None:
            self._call("PUT", self._lease_path(), {**found, "spec": spec})
            return
        metadata = {"name": self.settings.lease, "namespace": self.settings.namespace, "labels": _LABELS}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        self._call("POST", self._namespaced("/apis/coordination.k8s.io/v1", "leases"), body)

    # ---------------------------------------------------------------- paths and calls
    def _namespaced(self, group: str, plural: str, name: str = "") -> str:
        return f"{group}/namespaces/{self.settings.namespace}/{plural}" + (f"/{name}" if name else "")

    def _secret_path(self) -> str:
        return self._namespaced("/api/v1", "secrets", self.settings.secret)

    def _lease_path(self) -> str:
        return self._namespaced("/apis/coordination.k8s.io/v1", "leases", self.settings.lease)

    def _configuration_path(self, kind: str) -> str:
        return f"/apis/admissionregistration.k8s.io/v1/{_KINDS[kind]}/{self.settings.configuration}"

    def _find(self, path: str) -> Json | None:
        try:
            return self._call("GET", path)
        except _Absent:
            return None

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        return _object_in(self._send(method, path, body, query, content_type=content_type).data, f"{method} {path}")

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        *,
        content_type: str = "application/json",
        seconds: float = _CALL_SECONDS,
        is_stream: bool = False,
    ) -> Any:
        """The answer: read to its end, for a body breaks off, too; of a stream the head alone."""
        try:
            request = self.client.param_serialize(
                method=method,
                resource_path=path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self.client.call_api(*request, _request_timeout=seconds).response
            content = b"" if is_stream and answer.status < _HEALTHY else answer.data
        except _FAULTS as error:
            raise Unreachable(f"the API server does not answer {method} {path}: {error}") from error
        if answer.status >= _HEALTHY:
            raise _error(answer.status, content, f"{method} {path}")
        return answer


class _Absent(CertificateError):
    """The object is not there."""


def _object_in(body: bytes, what: str) -> Json:
    try:
        answer = json.loads(body or b"{}")
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(f"what answers {what} is no API server: {body[:80]!r} is no JSON object. A proxy in between?")
    return answer


def _error(status: int, body: bytes, what: str) -> CertificateError:
    try:
        said = json.loads(body).get("message", "")
    except (ValueError, AttributeError):
        said = body[:200].decode(errors="replace")
    if status == 404:
        return _Absent(said)
    if status == 409:
        return Conflict(f"another writer was faster ({said})")
    if status == 403:
        return Unreachable(
            f"{said}: this needs the role nvshare-webhook-certs of manifests/base/rbac-certificates.yaml"
        )
    return Unreachable(f"the API server answers {what} with {status}: {said}")


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


def _events(response: Any) -> Iterator[Json]:
    try:
        for line in response:
            yield json.loads(line)
    except (urllib3.exceptions.HTTPError, OSError, ValueError):
        return  # the next look comes anyway

"""Ask a running webhook about a pod as the API server does: an AdmissionReview over TLS, with the patch applied."""

import base64
import json
import ssl
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch

Pod = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The webhook's answer, and the pod as the API server would store it."""

    allowed: bool
    message: str
    warnings: tuple[str, ...]
    pod: Pod


def review_of(pod: Pod) -> dict[str, Any]:
    """Build the review that the API server would send when this pod is created."""
    metadata = pod["metadata"]
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": metadata.get("name", ""),
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that listens at `url`, trusted by the CA in `ca_file`."""

    url: str
    ca_file: Path

    def ask(self, pod: Pod) -> Answer:
        """Ask about the creation of this pod."""
        body = json.dumps(review_of(pod)).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        with urllib.request.urlopen(request, timeout=10, context=trust) as reply:
            response = json.load(reply)["response"]
        patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        return Answer(
            allowed=response["allowed"],
            message=response.get("status", {}).get("message", ""),
            warnings=tuple(response.get("warnings", ())),
            pod=jsonpatch.apply_patch(pod, patch),
        )

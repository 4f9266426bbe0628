"""`audit`: asks the cluster for its pods and Namespaces and says what is wrong with the running ones.

Exit code 0 nothing found, 1 something found, 2 the cluster could not be read.  May import the kubernetes client.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3

from webhook.admission.decision import Volumes
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import PodSecurity
from webhook.cluster_client import client_of, reason_of
from webhook.errors import StartError
from webhook.offline.audit import Finding, audit_all

_PAGE = 500
_SECONDS = 30
_FAULTS = (
    kubernetes.client.ApiException,
    kubernetes.config.ConfigException,
    urllib3.exceptions.HTTPError,
    OSError,
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""The last line is what reading a strange answer raises, such as a proxy's."""


def audit(arguments: argparse.Namespace) -> int:
    """Says every finding."""
    core = kubernetes.client.CoreV1Api(client_of(arguments.kubeconfig))
    try:
        pods, namespaces = _all(core.list_pod_for_all_namespaces), _all(core.list_namespace)
    except _FAULTS as error:
        raise StartError(
            f"the cluster's pods and namespaces cannot be read ({reason_of(error)})."
            " Use a kubeconfig that may list both."
        ) from None
    volumes = Volumes(arguments.volumes).in_cluster(PodSecurity(arguments.default_pod_security))
    findings = audit_all(pods, namespaces, volumes=volumes)
    _say(findings, arguments.output)
    return 1 if findings else 0


def _all(list_page: Any) -> list[Json]:
    """Every object, page by page, as raw JSON."""
    found: list[Json] = []
    token: str | None = None
    while token != "":
        options: dict[str, str] = {"_continue": token} if token else {}
        answer = list_page(limit=_PAGE, _preload_content=False, _request_timeout=_SECONDS, **options)
        page = json.loads(answer.data)
        found += page["items"]
        token = page["metadata"].get("continue", "")
    return found


def _say(findings: list[Finding], output: str) -> None:
    if output == "json":
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
        return
    for finding in findings:
        print(f"{finding.namespace}/{finding.pod}: {finding.flaw}\n  {finding.why}\n  fix: {finding.remedy}")
    print(f"{len(findings)} findings" if findings else "every running pod with vGPUs is as it should be")

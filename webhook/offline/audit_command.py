"""The command `audit`: read the pods and Namespaces of a cluster, and print what is wrong with the running pods.

Exit codes: 0 nothing found; 1 something found; 2 the cluster could not be read.
"""

import argparse
import json
from dataclasses import asdict

from adapters.errors import ApiError
from adapters.kubernetes.client import connect
from webhook.admission.decision import Volumes
from webhook.admission.namespace_policy import PodSecurity
from webhook.errors import StartError
from webhook.offline.audit import Finding, audit_all

_PAGE = 500
_SECONDS = 30.0
_POD_PATH, _NAMESPACE_PATH = "/api/v1/pods", "/api/v1/namespaces"


def audit(arguments: argparse.Namespace) -> int:
    """Print every finding."""
    api = connect(arguments.kubeconfig)
    try:
        pods, namespaces = (
            list(api.pages(path, size=_PAGE, seconds=_SECONDS)) for path in (_POD_PATH, _NAMESPACE_PATH)
        )
    except ApiError as error:
        raise StartError(
            f"the cluster's pods and namespaces cannot be read ({error}). Use a kubeconfig that may list both."
        ) from None
    volumes = Volumes(arguments.volumes).in_cluster(PodSecurity(arguments.default_pod_security))
    findings = audit_all(pods, namespaces, volumes=volumes)
    _say(findings, arguments.output)
    return 1 if findings else 0


def _say(findings: list[Finding], output: str) -> None:
    if output == "json":
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
        return
    for finding in findings:
        print(f"{finding.namespace}/{finding.pod}: {finding.flaw}\n  {finding.why}\n  fix: {finding.remedy}")
    print(f"{len(findings)} findings" if findings else "every running pod with vGPUs is as it should be")

"""A client of the cluster's API server: by kubeconfig, by the pod's own service account, or by the usual kubeconfig.

May import the kubernetes client and the room's errors.
"""

import os
from typing import Any

import kubernetes.client
import kubernetes.config
import yaml

from webhook.errors import StartError

_load_file: Any = kubernetes.config.load_kube_config
_load_pod: Any = kubernetes.config.load_incluster_config
_FAULTS = (
    kubernetes.config.ConfigException,
    OSError,
    yaml.YAMLError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)
"""A file that is no kubeconfig makes the client's own reader fall over its parts."""


def client_of(kubeconfig: str) -> kubernetes.client.ApiClient:
    """The client; a StartError where there is no cluster to reach."""
    configuration = kubernetes.client.Configuration()
    try:
        if not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
            _load_pod(client_configuration=configuration)
        else:
            _load_file(kubeconfig or None, client_configuration=configuration)
    except _FAULTS as error:
        what = f"{kubeconfig} is no kubeconfig that can be used" if kubeconfig else "no cluster is known"
        raise StartError(
            f"{what} ({reason_of(error)})."
            " Run in a pod, or name --kubeconfig, or (serve) a --namespace-file to do without a cluster."
        ) from None
    return kubernetes.client.ApiClient(configuration)


def reason_of(error: Exception) -> str:
    """An error of the client's in one line."""
    reason = getattr(error, "reason", None) or error
    return " ".join(str(reason).split())[:200]

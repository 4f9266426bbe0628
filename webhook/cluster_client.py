"""A client of the cluster's API server, by kubeconfig or by the pod's own service account.

May import the kubernetes client and the room's errors.
"""

from typing import Any

import kubernetes.client
import kubernetes.config

from webhook.errors import StartError

_load_file: Any = kubernetes.config.new_client_from_config
_load_pod: Any = kubernetes.config.load_incluster_config


def client_of(kubeconfig: str) -> kubernetes.client.ApiClient:
    """The client; a StartError where there is no cluster to reach."""
    try:
        if kubeconfig:
            client: kubernetes.client.ApiClient = _load_file(kubeconfig)
            return client
        configuration = kubernetes.client.Configuration()
        _load_pod(client_configuration=configuration)
        return kubernetes.client.ApiClient(configuration)
    except (kubernetes.config.ConfigException, OSError) as error:
        raise StartError(
            f"no cluster can be reached ({reason_of(error)})."
            " Run in a pod, or name --kubeconfig, or (serve) a --namespace-file to do without a cluster."
        ) from None


def reason_of(error: Exception) -> str:
    """An error of the client's in one line."""
    reason = getattr(error, "reason", None) or error
    return " ".join(str(reason).split())[:200]

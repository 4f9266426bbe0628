"""A client of the cluster's API server, by kubeconfig or by the pod's own service account.

May import the kubernetes client and the room's errors.
"""

import kubernetes.client
import kubernetes.config

from webhook.errors import StartError


def client_of(kubeconfig: str) -> kubernetes.client.ApiClient:
    """The client; a StartError where there is no cluster to reach."""
    try:
        if kubeconfig:
            return kubernetes.config.new_client_from_config(kubeconfig)
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_incluster_config(client_configuration=configuration)
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

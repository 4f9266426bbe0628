"""The certificate of a running server: kept from the cluster's Secret as two files that are never on a disk.

`prepare` before the worker is forked, `start` in it.  May import this package, threads and files.
"""

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from webhook.certs.cluster import Cluster
from webhook.certs.keep import into_folder, keep
from webhook.certs.settings import Settings
from webhook.cluster_client import client_of

_MEMORY = "/dev/shm"


@dataclass(frozen=True, slots=True)
class KeptPair:
    """Where the pair will be, once there is one."""

    cluster: Cluster
    folder: Path

    @property
    def certificate(self) -> str:
        return str(self.folder / "tls.crt")

    @property
    def key(self) -> str:
        return str(self.folder / "tls.key")

    def start(self) -> None:
        """Follow the Secret in the background until the process ends."""
        arguments = (self.cluster, into_folder(self.folder), threading.Event())
        threading.Thread(target=keep, args=arguments, name="certificate", daemon=True).start()


def prepare(kubeconfig: str) -> KeptPair:
    """A folder in memory, and the way to the cluster; raises a StartError where none is known."""
    cluster = Cluster(client_of(kubeconfig), Settings())
    return KeptPair(cluster, Path(tempfile.mkdtemp(prefix="nvshare-webhook-", dir=_MEMORY)))

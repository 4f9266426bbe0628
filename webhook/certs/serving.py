"""The certificate of a running server: the pair of the cluster's Secret as two files that are never on a disk.

The rule it owns: `prepare` is called before the worker is forked, `start` in the worker.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from adapters.kubernetes.client import connect
from webhook.certs.cluster import Cluster
from webhook.certs.core.settings import Settings
from webhook.certs.keeper import into_folder, keep

_MEMORY = Path("/dev/shm")
_PREFIX = "nvshare-webhook-"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class KeptPair:
    """The place where the pair will be, once there is one."""

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
    """Return a folder in memory and the way to the cluster; raises NoCluster where none is known."""
    cluster = Cluster(connect(kubeconfig), Settings())
    return KeptPair(cluster, own_folder())


def own_folder(parent: Path = _MEMORY) -> Path:
    """Make a folder that goes with this process; remove folders that killed processes left, since they hold keys."""
    for left in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        abandoned = _locked(left, os.O_RDWR)
        if abandoned is not None:
            shutil.rmtree(left.parent, ignore_errors=True)
            os.close(abandoned)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    _locked(folder / _LOCK, os.O_RDWR | os.O_CREAT)
    atexit.register(_remove, folder, os.getpid())
    return folder


def _locked(lock: Path, flags: int) -> int | None:
    """Lock until this process and its children end; return None where a living process holds the lock."""
    try:
        descriptor = os.open(lock, flags, 0o600)
    except OSError:
        return None  # it is gone meanwhile, or belongs to another user
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(folder: Path, owner: int) -> None:
    """Remove the folder at the end of the process that made it, not at the end of a worker."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

"""The part of `serve` that keeps its certificate: it hands each new pair to the server, and repairs in an emergency.

The Secret is followed through the API, since the kubelet may take 90 s to update a mounted one.  The rule it owns: the
first certificate, a broken or nearly expired one and a lost CA bundle do not wait for the CronJob.  The replica that
gets the Lease repairs them.
"""

import logging
import os
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from webhook.certs.cluster import Cluster
from webhook.certs.core.errors import CertificateError
from webhook.certs.core.issue import Pair
from webhook.certs.core.phases import needs_repair
from webhook.certs.core.rotation import Surroundings, mend

log = logging.getLogger(__name__)

Deliver = Callable[[bytes, bytes], None]
_PAUSE_SECONDS = 1.0


def keep(cluster: Cluster, deliver: Deliver, stop: threading.Event) -> None:
    """Follow the Secret until `stop`; `deliver` gets certificate and key, PEM, at each new pair."""
    keeper = _Keeper(cluster, deliver, stop)
    while not stop.is_set():
        try:
            keeper.look()
        except CertificateError as trouble:
            log.warning("certificates: %s", trouble)
            stop.wait(_PAUSE_SECONDS)
        except Exception:  # any error: without this thread the certificate would expire
            log.exception("certificates: an unexpected error; trying again in %s s", _PAUSE_SECONDS)
            stop.wait(_PAUSE_SECONDS)


class _Keeper:
    def __init__(self, cluster: Cluster, deliver: Deliver, stop: threading.Event) -> None:
        self._cluster = cluster
        self._deliver = deliver
        self._stop = stop
        self._delivered: Pair | None = None
        self._mending = False
        self._around = Surroundings(sleep=lambda _: None, tell=lambda text: log.info("certificates: %s", text))

    def look(self) -> None:
        now, settings = datetime.now(UTC), self._cluster.settings
        parts, version = self._cluster.read(now=now)
        self._hand_over(parts.serving)
        trouble = needs_repair(parts, self._cluster.see(dial=False), now=now, settings=settings)
        if trouble:
            log.info("certificates: %s; this replica repairs it", trouble)
        self._mending = self._mending or bool(trouble)
        wait = min(settings.watch_seconds, self._mend()) if self._mending else settings.watch_seconds
        if version:
            self._cluster.wait_for_change(version, seconds=wait)
        else:
            self._stop.wait(min(wait, _PAUSE_SECONDS))

    def _mend(self) -> float:
        """Repair until the next wait, and return its seconds; the replica that began a repair also ends it."""
        seconds = mend(self._cluster, self._cluster.settings, self._around)
        self._mending = seconds is not None
        return self._cluster.settings.watch_seconds if seconds is None else seconds

    def _hand_over(self, pair: Pair | None) -> None:
        """Deliver a new pair; where the Secret is broken, keep the loaded one."""
        if pair is not None and pair != self._delivered:
            self._deliver(pair.certificate, pair.key)
            self._delivered = pair


def into_folder(folder: Path) -> Deliver:
    """Return a `deliver` that writes both files as the kubelet does: both change by one rename of `..data`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def deliver(certificate: bytes, key: bytes) -> None:
        generation = folder / f"..{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        generation.mkdir(mode=0o700)
        _write(generation / "tls.crt", certificate)
        _write(generation / "tls.key", key)
        before = (folder / "..data").resolve() if (folder / "..data").is_symlink() else None
        _point(folder / "..data", generation.name)
        for name in ("tls.crt", "tls.key"):
            if not (folder / name).is_symlink():
                _point(folder / name, f"..data/{name}")
        if before is not None and before != generation:
            shutil.rmtree(before, ignore_errors=True)

    return deliver


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _point(link: Path, target: str) -> None:
    fresh = link.with_name(f"{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.rename(link)

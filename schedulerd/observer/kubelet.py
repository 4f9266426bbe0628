"""The kubelet's pod-resources socket: which container has which devices.

The rule it owns: at most one List in half a second, however many threads ask.
"""

import logging
import threading
import time
from pathlib import Path

from adapters.kubelet.pod_resources import PodResources
from adapters.kubelet.rpc import RpcError, describe_error
from schedulerd.observer.pod_facts import Owner, owners

log = logging.getLogger(__name__)

_EVERY = 0.5
_TIMEOUT = 1.0


class Kubelet:
    """The kubelet's last list."""

    def __init__(self, path: Path) -> None:
        self._client = PodResources(path, seconds=_TIMEOUT)
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._owners: dict[frozenset[str], Owner] = {}
        self.failures = 0

    def owner(self, device_ids: frozenset[str], *, give_up_at: float) -> Owner | None:
        """Return the container that has these devices; ask again until it is known or time is over."""
        while True:
            found = self._owners.get(device_ids)
            if found is None:
                self._refresh()
                found = self._owners.get(device_ids)
            if found is not None or time.monotonic() + _EVERY > give_up_at:
                return found
            time.sleep(_EVERY)

    def forget(self, device_ids: frozenset[str]) -> None:
        """Drop the owner of these slots, which were given out again."""
        self._owners.pop(device_ids, None)

    def _refresh(self) -> None:
        with self._lock:
            if time.monotonic() - self._asked_at < _EVERY:
                return
            self._asked_at = time.monotonic()
            try:
                self._owners = owners(self._client.list_containers())
            except RpcError as error:
                self.failures += 1
                log.warning("the kubelet does not list its devices: %s", describe_error(error))

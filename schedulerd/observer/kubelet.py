"""The kubelet's pod-resources socket: who has which devices, asked seldom.

Owns the rate: one List in half a second at most, however many ask.
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
    """The list, as it last was."""

    def __init__(self, path: Path) -> None:
        self._client = PodResources(path, seconds=_TIMEOUT)
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._owners: dict[frozenset[str], Owner] = {}
        self.failures = 0

    def owner(self, device_ids: frozenset[str], *, give_up_at: float) -> Owner | None:
        """Who has these devices; asks again until it is known or time is over."""
        while True:
            found = self._owners.get(device_ids)
            if found is None:
                self._refresh()
                found = self._owners.get(device_ids)
            if found is not None or time.monotonic() + _EVERY > give_up_at:
                return found
            time.sleep(_EVERY)

    def forget(self, device_ids: frozenset[str]) -> None:
        """These slots were given out again: what was known of them is old."""
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
                log.warning("the kubelet does not say who has which device: %s", describe_error(error))

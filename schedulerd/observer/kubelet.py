"""The kubelet's pod-resources socket: who has which devices, asked seldom.

Owns the rate: one List in half a second at most, however many ask.  May import the generated messages and grpc.
"""

import logging
import threading
import time
from pathlib import Path

import grpc

from schedulerd.kubelet_api.schedulerd_podresources_v1_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from schedulerd.observer.pod_facts import Owner, owners

log = logging.getLogger(__name__)

_METHOD = "/v1.PodResourcesLister/List"
_EVERY = 0.5
_TIMEOUT = 1.0
_LARGEST = 16 << 20


class Kubelet:
    """The list, as it last was."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
                self._owners = owners(self._list())
            except grpc.RpcError as error:
                self.failures += 1
                log.warning("the kubelet does not say who has which device: %s", error)

    def _list(self) -> list[object]:
        options = [("grpc.max_receive_message_length", _LARGEST)]
        with grpc.insecure_channel(f"unix://{self._path}", options=options) as channel:
            ask = channel.unary_unary(
                _METHOD,
                request_serializer=ListPodResourcesRequest.SerializeToString,
                response_deserializer=ListPodResourcesResponse.FromString,
            )
            return list(ask(ListPodResourcesRequest(), timeout=_TIMEOUT).pod_resources)

"""Reads the kubelet's books: who has which slots, and which GPUs are another plugin's.

Owns what one look is: each question fails by itself, and what it would have told is not known.  Called from one thread.
May import `lifetime`, `others`, `checkpoint`; it asks pod-resources through a Protocol.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import grpc

from deviceplugin.checkpoint import parse_checkpoint, parse_others
from deviceplugin.lifetime import Books, Listed
from deviceplugin.others import Other, remember, resources

log = logging.getLogger(__name__)
_OTHERS_SECONDS = 5.0
T = TypeVar("T")


class Kubelet(Protocol):
    """What pod-resources tells; each call raises `grpc.RpcError`."""

    def list_pods(self) -> Listed: ...

    def foreign(self) -> Mapping[str, str]: ...


class KubeletBooks:
    """Asked every few seconds; tells of other plugins' GPUs as often as it has looked for them."""

    def __init__(
        self,
        kubelet: Kubelet,
        checkpoint: Path,
        resource: str,
        *,
        tell_foreign: Callable[[Mapping[str, str]], None],
        grace: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubelet, self._checkpoint, self._resource = kubelet, checkpoint, resource
        self._tell_foreign, self._grace, self._clock = tell_foreign, grace, clock
        self._others: Mapping[str, Other] = {}
        self._next_others = 0.0
        self.answers: dict[str, bool] = {}
        """For metrics: whether each question that was asked has been answered, the last time."""

    def read(self) -> Books | None:
        """The books now; None where the kubelet does not say who has what."""
        listed = self._ask("List", self._kubelet.list_pods)
        if self._is_time_for_others():
            self._look_for_others(listed, {})
        return None if listed is None else Books(listed.assignments, self._read(parse_checkpoint))

    def look_for_others(self) -> None:
        """Before the first slot is told.  The checkpoint knows those whose plugin registers after ours: the kubelet
        strikes them out when the first plugin after its start tells its list."""
        if self._is_time_for_others():
            listed = self._ask("List", self._kubelet.list_pods)
            self._look_for_others(listed, self._read(parse_others) or {})

    def _is_time_for_others(self) -> bool:
        return self._clock() >= self._next_others

    def _look_for_others(self, listed: Listed | None, noted: Mapping[str, str]) -> None:
        now = self._clock()
        given_out = self._ask("GetAllocatableResources", self._kubelet.foreign)
        seen = {**noted, **(listed.others if listed else {}), **(given_out or {})}
        is_whole = listed is not None and given_out is not None
        self._others = remember(self._others, seen, now=now, seconds=self._grace, is_whole=is_whole)
        self._tell_foreign(resources(self._others))
        self._next_others = now + _OTHERS_SECONDS

    def _ask(self, call: str, question: Callable[[], T]) -> T | None:
        """Says once when the kubelet falls silent, and once when it answers again."""
        was = self.answers.get(call, True)
        try:
            answer = question()
        except grpc.RpcError as error:
            if was:
                said = error.details() if isinstance(error, grpc.Call) else error
                log.warning("pod-resources does not answer %s (%s): what it said before is believed", call, said)
            self.answers = {**self.answers, call: False}
            return None
        if not was:
            log.info("pod-resources answers %s again", call)
        self.answers = {**self.answers, call: True}
        return answer

    def _read(self, parse: Callable[[str, str], T]) -> T | None:
        try:
            text = self._checkpoint.read_text()
        except (OSError, UnicodeDecodeError):
            return None
        return parse(text, self._resource)

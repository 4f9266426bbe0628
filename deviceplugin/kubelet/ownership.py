"""Reads the kubelet's books: who has which slots, and which GPUs are another plugin's.

Owns what one look is: each question fails by itself, and what it would have told is not known.  Called from one thread.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from adapters.kubelet.rpc import RpcError, describe_error
from deviceplugin.core.checkpoint import parse_checkpoint, parse_foreign
from deviceplugin.core.foreign_gpus import ForeignGpu, read_foreign, remember, render_foreign, resources
from deviceplugin.core.retention import Listed, Ownership
from deviceplugin.node.state_file import StateFile

log = logging.getLogger(__name__)
_FOREIGN_SECONDS = 5.0
T = TypeVar("T")


class Kubelet(Protocol):
    """What pod-resources tells; each call raises `adapters.kubelet.rpc.RpcError`."""

    def list_pods(self) -> Listed: ...

    def foreign(self) -> Mapping[str, str]: ...


@dataclass(slots=True, kw_only=True)
class OwnershipReader:
    """Asked every few seconds; tells of other plugins' GPUs as often as it has looked for them."""

    kubelet: Kubelet
    checkpoint: Path
    resource: str
    state_file: StateFile
    """ForeignGpu plugins' GPUs as last known, for a plugin of ours that starts while they are away."""
    tell_foreign: Callable[[Mapping[str, str]], None]
    grace: float
    clock: Callable[[], float] = time.monotonic
    answers: Mapping[str, bool] = field(default_factory=dict)
    """For metrics: whether each question that was asked has been answered, the last time."""
    _foreign: Mapping[str, ForeignGpu] | None = None
    _next_look: float = -math.inf

    def read(self) -> Ownership | None:
        """The books now; None where the kubelet does not say who has what."""
        listed = self._ask("List", self.kubelet.list_pods)
        if self._is_time_for_foreign():
            self.state_file.write(render_foreign(self._look_for_foreign(listed)))
        return None if listed is None else Ownership(listed.assignments, self._read(parse_checkpoint))

    def look_for_foreign(self) -> None:
        """Before the first slot is told; changes nothing on the node."""
        if self._is_time_for_foreign():
            self._look_for_foreign(self._ask("List", self.kubelet.list_pods))

    def _is_time_for_foreign(self) -> bool:
        return self.clock() >= self._next_look

    def _look_for_foreign(self, listed: Listed | None) -> dict[str, str]:
        now = self.clock()
        self._next_look = now + _FOREIGN_SECONDS
        given_out = self._ask("GetAllocatableResources", self.kubelet.foreign)
        seen = {**(listed.others if listed else {}), **(given_out or {})}
        if self._foreign is None:
            seen = self._recorded() | seen
        is_whole = listed is not None and given_out is not None
        self._foreign = remember(self._foreign or {}, seen, now=now, seconds=self.grace, is_whole=is_whole)
        found = resources(self._foreign)
        self.tell_foreign(found)
        return found

    def _recorded(self) -> dict[str, str]:
        """Of those who are away at our first look.  The kubelet strikes them out of its checkpoint when the first
        plugin after its start tells its list, hence our own note beside it."""
        return read_foreign(self.state_file.read()) | (self._read(parse_foreign) or {})

    def _ask(self, call: str, question: Callable[[], T]) -> T | None:
        """Says once when the kubelet falls silent, and once when it answers again."""
        was = self.answers.get(call, True)
        try:
            answer = question()
        except RpcError as error:
            if was:
                log.warning(
                    "pod-resources does not answer %s (%s): what it said before is believed",
                    call,
                    describe_error(error),
                )
            self.answers = {**self.answers, call: False}
            return None
        if not was:
            log.info("pod-resources answers %s again", call)
        self.answers = {**self.answers, call: True}
        return answer

    def _read(self, parse: Callable[[str, str], T]) -> T | None:
        try:
            text = self.checkpoint.read_text()
        except (OSError, UnicodeDecodeError):
            return None
        return parse(text, self.resource)

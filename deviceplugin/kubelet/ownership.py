"""Read from the kubelet which container owns which slots, and which GPUs belong to other plugins.

The module owns what one look is.  Each question fails by itself, and its answer then counts as unknown.  One thread
calls it.
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
    """The questions to pod-resources; each call raises `adapters.kubelet.rpc.RpcError`."""

    def list_pods(self) -> Listed: ...

    def foreign(self) -> Mapping[str, str]: ...


@dataclass(slots=True, kw_only=True)
class OwnershipReader:
    """Ask every few seconds; report other plugins' GPUs after each look at them."""

    kubelet: Kubelet
    checkpoint: Path
    resource: str
    state_file: StateFile
    """Other plugins' GPUs as last known, so that our plugin may start while the other plugins are away."""
    tell_foreign: Callable[[Mapping[str, str]], None]
    grace: float
    clock: Callable[[], float] = time.monotonic
    answers: Mapping[str, bool] = field(default_factory=dict)
    """For metrics: each question that was asked, and whether its last answer came."""
    _foreign: Mapping[str, ForeignGpu] | None = None
    _next_look: float = -math.inf

    def refresh(self) -> Ownership | None:
        """Ask the kubelet, and keep the state file of other plugins' GPUs up to date.

        Return None where the kubelet does not list its containers.
        """
        listed = self._ask("List", self.kubelet.list_pods)
        if self._is_time_for_foreign():
            self.state_file.write(render_foreign(self._look_for_foreign(listed)))
        return None if listed is None else Ownership(listed.assignments, self._read(parse_checkpoint))

    def look_for_foreign(self) -> None:
        """Look for other plugins' GPUs before the first slot is listed; change nothing on the node."""
        if self._is_time_for_foreign():
            self._look_for_foreign(self._ask("List", self.kubelet.list_pods))

    def _is_time_for_foreign(self) -> bool:
        return self.clock() >= self._next_look

    def _look_for_foreign(self, listed: Listed | None) -> dict[str, str]:
        now = self.clock()
        self._next_look = now + _FOREIGN_SECONDS
        given_out = self._ask("GetAllocatableResources", self.kubelet.foreign)
        seen = {**(listed.foreign if listed else {}), **(given_out or {})}
        if self._foreign is None:
            seen = self._recorded() | seen
        is_whole = listed is not None and given_out is not None
        self._foreign = remember(self._foreign or {}, seen, now=now, seconds=self.grace, is_whole=is_whole)
        found = resources(self._foreign)
        self.tell_foreign(found)
        return found

    def _recorded(self) -> dict[str, str]:
        """Return the GPUs of plugins that are away at our first look.

        The kubelet removes them from its checkpoint when the first plugin after its start sends a list.  So our own
        state file is read too.
        """
        return read_foreign(self.state_file.read()) | (self._read(parse_foreign) or {})

    def _ask(self, call: str, question: Callable[[], T]) -> T | None:
        """Log once when the kubelet stops answering, and once when it answers again."""
        was = self.answers.get(call, True)
        try:
            answer = question()
        except RpcError as error:
            if was:
                log.warning(
                    "pod-resources does not answer %s (%s): its last answer is used",
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

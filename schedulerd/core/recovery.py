"""Processes that come while turns go on: processes of a daemon that went away, and new processes.

The rule it owns: a process runs in its container's turns from its first moment, since it sees the gates open.  A turn
that it says it still holds is believed if it can be true.  No other container gets a GPU before all processes that held
it are back.
"""

from collections.abc import Callable, Mapping, Sequence

from schedulerd.core.grants import Grants
from schedulerd.core.model import UNKNOWN, UNKNOWN_HOLDER, ContainerState, Gpu, Group, Request, grouped
from schedulerd.policies import FOREVER, Seconds

LeftBehind = Callable[[str], tuple[Seconds, Mapping[str, Sequence[int]]]]
"""For a GPU: until when holders of an earlier daemon may be on it, and the pids of the processes of each holder."""


def nobody_before(_uuid: str) -> tuple[Seconds, Mapping[str, Sequence[int]]]:
    """Return that there was no daemon before this one."""
    return -FOREVER, {}


class Returning:
    """The turns that a new process finds, and the turns that it still holds from an earlier daemon."""

    def __init__(self, grants: Grants, request: Callable[[ContainerState, Group, Seconds], Request]) -> None:
        self.grants = grants
        self._request = request

    def join_turns(self, process: int, container: ContainerState, now: Seconds) -> None:
        """Let a new process run in the turns of its container.

        It may use the GPUs without asking, so the turns must wait for it too.
        """
        for turn in dict.fromkeys(container.turns.values()):
            if process not in turn.processes_running:
                self.grants.add_process(turn, process, now)

    def goes_on(self, container: ContainerState, gpus: Sequence[Gpu], now: Seconds, *, alone: bool) -> bool:
        """Give a container the GPUs that one of its processes says it holds, and return whether that can be true."""
        further = tuple(gpu for gpu in gpus if gpu.uuid not in container.turns)
        if not _may_be_true(container, further, now, alone=alone):
            return False
        if further:
            self._go_on(container, further, now, alone=alone)
        return True

    def _go_on(self, container: ContainerState, gpus: tuple[Gpu, ...], now: Seconds, *, alone: bool) -> None:
        for request in dict.fromkeys(container.requests[gpu.uuid] for gpu in gpus if gpu.uuid in container.requests):
            if set(request.gpus) <= set(gpus):
                self.grants.drop(request)  # another process asked first; the container has the GPUs now
        turn = self.grants.begin(container, gpus, now, request=self._request(container, grouped(gpus), now))
        turn.shared = not alone
        for gpu in gpus:
            gpu.waited_at = now  # whether somebody waited under the earlier daemon is not known
        self.grants.tell_granted(turn, tuple(container.processes), now)
        self.grants.settle(gpus, now)

    def is_back(self, container: ContainerState, pid: int, now: Seconds) -> None:
        """Stop waiting for a process that is back, on the GPUs that it does not hold."""
        key = container.facts.key
        for uuid in container.facts.gpus:
            gpu = self.grants.gpus[uuid]
            missing = gpu.missing.get(key)
            if missing is None:
                continue
            if (
                pid in missing and pid != UNKNOWN
            ):  # a process without a pid cannot be told from a new one; only time ends the wait for it
                missing.remove(pid)
            if not missing:
                self.grants.account_for(gpu, key)
                self.grants.settle((gpu,), now)


def _may_be_true(container: ContainerState, gpus: tuple[Gpu, ...], now: Seconds, *, alone: bool) -> bool:
    """Return whether a container may have had these GPUs until now.  A gang had all of them or none."""
    if container.gang and 0 < len(gpus) < len(container.facts.gpus):
        return False
    key = container.facts.key
    return all(_was_there(gpu, key, now) and _has_room(gpu, alone=alone) for gpu in gpus)


def _was_there(gpu: Gpu, key: str, now: Seconds) -> bool:
    """Return whether a container may have been on a GPU.

    While others may still be on the GPU, only containers that were there before may go on.  When the GPU is open again,
    the first container may.
    """
    return now >= gpu.closed_until or key in gpu.missing or UNKNOWN_HOLDER in gpu.missing


def _has_room(gpu: Gpu, *, alone: bool) -> bool:
    if gpu.paused is not None:
        return False
    return not gpu.holders if alone else all(turn.shared for turn in gpu.holders)

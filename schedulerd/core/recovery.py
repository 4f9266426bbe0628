"""Processes that come while turns go on: those of a daemon that went away, and those that are new.

The rule it owns: a process rides what its container has from its first moment, since it sees the gates open.  What it
says that it still holds is believed where that can be true; a GPU is nobody else's before all that held it are back.
"""

from collections.abc import Callable, Sequence

from schedulerd.core.grants import Grants
from schedulerd.core.model import SOMEBODY, UNKNOWN, ContainerState, Gpu, Group, Request, grouped
from schedulerd.policies import Seconds


class Returning:
    """What a newcomer finds, and what it brings."""

    def __init__(self, grants: Grants, request: Callable[[ContainerState, Group, Seconds], Request]) -> None:
        self.grants = grants
        self._request = request

    def join_turns(self, process: int, container: ContainerState) -> None:
        """A newcomer may use what its container has without a word: the turns are to wait for it too."""
        for turn in dict.fromkeys(container.turns.values()):
            if process not in turn.processes_running:
                self.grants.add_process(turn, process)

    def goes_on(self, container: ContainerState, gpus: Sequence[Gpu], now: Seconds, *, alone: bool) -> bool:
        """Whether a container has the GPUs that one of its processes says it holds: from now on, where that can be."""
        further = tuple(gpu for gpu in gpus if gpu.uuid not in container.turns)
        if not _may_be_true(container, further, now, alone=alone):
            return False
        if further:
            self._go_on(container, further, now, alone=alone)
        return True

    def _go_on(self, container: ContainerState, gpus: tuple[Gpu, ...], now: Seconds, *, alone: bool) -> None:
        for request in dict.fromkeys(container.requests[gpu.uuid] for gpu in gpus if gpu.uuid in container.requests):
            if set(request.gpus) <= set(gpus):
                self.grants.drop(request)  # of another process, which came first: it has them now
        turn = self.grants.begin(container, gpus, now, request=self._request(container, grouped(gpus), now))
        turn.shared = not alone
        self.grants.tell_granted(turn, tuple(container.processes))
        self.grants.settle(gpus, now)

    def is_back(self, container: ContainerState, pid: int, now: Seconds) -> None:
        """A process of a container is here: on what it does not hold, it need not be waited for."""
        key = container.facts.key
        for uuid in container.facts.gpus:
            gpu = self.grants.gpus[uuid]
            missing = gpu.missing.get(key)
            if missing is None:
                continue
            if pid in missing and pid != UNKNOWN:  # those without a name end by time: whoever comes may be a new one
                missing.remove(pid)
            if not missing:
                self.grants.account_for(gpu, key)
                self.grants.settle((gpu,), now)


def _may_be_true(container: ContainerState, gpus: tuple[Gpu, ...], now: Seconds, *, alone: bool) -> bool:
    """Whether a container may have had these GPUs until now; a gang had all of them or none."""
    if container.gang and 0 < len(gpus) < len(container.facts.gpus):
        return False
    key = container.facts.key
    return all(_was_there(gpu, key, now) and _has_room(gpu, alone=alone) for gpu in gpus)


def _was_there(gpu: Gpu, key: str, now: Seconds) -> bool:
    """On a GPU that others may be on still, only those go on that were there; once it is open, whoever comes first."""
    return now >= gpu.closed_until or key in gpu.missing or SOMEBODY in gpu.missing


def _has_room(gpu: Gpu, *, alone: bool) -> bool:
    if gpu.paused is not None:
        return False
    return not gpu.holders if alone else all(turn.shared for turn in gpu.holders)

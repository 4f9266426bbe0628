"""Run a function in a forked process with limits, several at a time: the warmed process is not harmed by a mutant."""

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

_MEMORY_BYTES = 6 << 30
_PR_SET_PDEATHSIG = 1
_WALL_OF_CPU = 10
"""The machine may be busy with others: so many times the processor time may pass on the clock."""


class End(Enum):
    """How a mutant ended."""

    SURVIVED = "survived"
    KILLED = "killed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Job:
    """What a child does, returning whether the tests passed, and its limit."""

    name: str
    passes: Callable[[], bool]
    cpu_seconds: int


@dataclass(slots=True)
class _Child:
    job: Job
    ends_at: float
    killed: bool = False


def run_all(jobs: Iterable[Job], *, at_once: int) -> Iterator[tuple[Job, End]]:
    """Run every job in a process of its own; return each as it ends."""
    waiting, children = iter(jobs), dict[int, _Child]()
    while True:
        while len(children) < at_once and (job := next(waiting, None)) is not None:
            children[_fork(job)] = _Child(job, time.monotonic() + job.cpu_seconds * _WALL_OF_CPU)
        if not children:
            return
        yield from _ended(children)


def _ended(children: dict[int, _Child]) -> Iterator[tuple[Job, End]]:
    for pid, child in tuple(children.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            del children[pid]
            _kill_group(pid)
            yield child.job, _end(child, status)
        elif time.monotonic() > child.ends_at and not child.killed:
            child.killed = True
            _kill_group(pid)
    time.sleep(0.003)


def _end(child: _Child, status: int) -> End:
    if os.WIFSIGNALED(status):
        late = child.killed or os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return End.TIMED_OUT if late else End.KILLED
    return End.SURVIVED if os.WEXITSTATUS(status) == 0 else End.KILLED


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _fork(job: Job) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        end_with_parent(parent)
        os.setpgid(0, 0)
        silence()
        resource.setrlimit(resource.RLIMIT_CPU, (job.cpu_seconds, job.cpu_seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        code = 0 if job.passes() else 1
    finally:
        os._exit(code)


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, however that happens; `parent` is the process that forked it."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(1)


def silence() -> None:
    """Send what this process says to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

"""The load of each GPU as the scheduler reports it, kept in memory by a thread of its own.

The module owns how old load may be.  The kubelet's calls only read the memory, so a scheduler that hangs or is gone
costs them nothing.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contract.errors import ContractError
from contract.sharing.placement import Policy, Strategy
from contract.sharing.scoring import Weights, penalties
from contract.wire.load import QUERY, Load, decode_load

log = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 1.0
_SHORT_SECONDS = 0.2
"""Used before the kubelet knows us: it fails pods until then."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer of the scheduler, and when its figures were true (monotonic seconds)."""

    load: Load
    true_at: float


class LoadMemory:
    """The newest answer of the scheduler."""

    def __init__(self, *, fresh_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fresh_seconds, self._clock = fresh_seconds, clock
        self._newest: Remembered | None = None
        self._answered_at: float | None = None
        self._drained_before: frozenset[str] = frozenset()

    def believe_drained(self, uuids: frozenset[str]) -> None:
        """Take what was drained before our start; it counts until the scheduler answers."""
        self._drained_before = uuids

    def remember(self, load: Load) -> None:
        """Keep an answer that has just come."""
        now = self._clock()
        self._newest = Remembered(load, now - load.age_ms / 1000)
        self._answered_at = now

    def fresh(self) -> Load | None:
        """Return the newest answer, or None where it is too old to be used."""
        newest = self._newest
        if newest is None or self._clock() - newest.true_at > self._fresh_seconds:
            return None
        return newest.load

    def scheduler_answers(self) -> bool:
        """Return whether the scheduler answered lately."""
        return self._answered_at is not None and self._clock() - self._answered_at <= self._fresh_seconds

    def drained(self) -> frozenset[str]:
        """Return the GPUs that an operator has drained; while the scheduler is away, its last answer counts."""
        newest = self._newest
        return frozenset(gpu.uuid for gpu in newest.load.gpus if gpu.drained) if newest else self._drained_before


def policy_now(memory: LoadMemory, strategy: Strategy, weights: Weights | None) -> Policy:
    """Place by load where that is wanted and the load is fresh; otherwise by count."""
    load = memory.fresh() if weights else None
    if load is None or weights is None:
        return Policy(strategy=strategy)
    return Policy(strategy=strategy, penalty=penalties(load.gpus, weights), taken_weight=weights.taken)


def ask_for_load(control_socket: Path, *, seconds: float = _TIMEOUT_SECONDS) -> Load:
    """Send one query; raise OSError or `ContractError`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(str(control_socket))
        connection.sendall(QUERY)
        with connection.makefile("rb") as lines:
            return decode_load(lines)


def ask_once(control_socket: Path, memory: LoadMemory) -> None:
    """Ask with a short time limit; keep what was known where the scheduler does not answer."""
    try:
        memory.remember(ask_for_load(control_socket, seconds=_SHORT_SECONDS))
    except (OSError, ContractError) as error:
        log.debug("the scheduler does not report load now: %s", error)


def keep_load(control_socket: Path, memory: LoadMemory, on_news: Callable[[], None], stop: threading.Event) -> None:
    """Ask once a second until `stop`; log once when the scheduler stops answering, and once when it answers again."""
    answered = True
    while not stop.is_set():
        try:
            memory.remember(ask_for_load(control_socket))
        except (OSError, ContractError) as error:
            if answered:
                log.info("the scheduler does not report load (%s): GPUs are chosen by count", error)
            answered = False
        else:
            if not answered:
                log.info("the scheduler reports load again")
            answered = True
        on_news()
        stop.wait(1.0)

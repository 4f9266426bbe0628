"""The state of this node apart from the turns: cards as NVML sees them, pods as the kubelet and the API see them.

The rule it owns: how long such a value holds.  The observer sends the values; status, load and identity read them.
"""

from dataclasses import dataclass, field
from typing import Protocol

from contract.wire.control import Figures, PodFacts

Seconds = float
_FRESH: Seconds = 10.0
"""Figures come every second, from a slow card every few seconds."""
_SILENT: Seconds = 20.0
"""An observer that runs says something every few seconds."""


class Latency(Protocol):
    """The time that the event loop needs."""

    latencies: list[int]
    worked: Seconds


@dataclass(slots=True)
class Node:
    """The latest values."""

    figures: dict[str, tuple[Seconds, Figures]] = field(default_factory=dict)
    """By GPU: the latest figures, and when they came."""
    pods: dict[str, PodFacts] = field(default_factory=dict)
    """By allocation: the facts of its pod."""
    pids: dict[int, int] = field(default_factory=dict)
    """By connected client: its pid, as the kernel says; 0 where the kernel cannot see the process."""
    foreign: int = 0
    """The number of clients whose process belongs to another pod than their socket."""
    loop: Latency | None = None
    refusals: dict[str, int] = field(default_factory=dict)
    """The number of refused lines, by error code."""
    observer_spoke_at: Seconds | None = None
    """When the observer last said anything."""

    def why_not_ready(self, now: Seconds) -> str:
        """Return a sentence that says what is missing, or an empty text when nothing is."""
        if self.observer_spoke_at is None:
            return "the observer has not connected yet: metrics, weights and caps wait for it"
        silent = now - self.observer_spoke_at
        return f"the observer has sent nothing for {silent:.0f} s: see the log" if silent > _SILENT else ""

    limits_reached: dict[str, int] = field(default_factory=dict)
    """By limit: how often a container had to wait for it, or a client's connection was closed by it."""

    def hear(self, gpu: str, figures: Figures, now: Seconds) -> None:
        """Record the figures of a card."""
        self.figures[gpu] = (now, figures)

    def lately(self, now: Seconds) -> dict[str, Figures]:
        """Return the figures that still hold.  A card that has gone, or hangs, sends nothing new."""
        return {gpu: figures for gpu, (at, figures) in self.figures.items() if now - at <= _FRESH}

    def age(self, now: Seconds) -> Seconds:
        """Return the age of the oldest figures that still hold; if none hold, the age of the newest figures."""
        ages = [now - at for at, _ in self.figures.values()]
        return max((age for age in ages if age <= _FRESH), default=min(ages, default=now))

    def forget(self, client: int) -> None:
        """Forget a client that has gone."""
        self.pids.pop(client, None)

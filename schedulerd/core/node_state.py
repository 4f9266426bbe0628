"""What is known of this node beside the turns: cards by NVML, pods by the kubelet and the API.

Plain values that the observer sends and that status, load and identity read.
"""

from dataclasses import dataclass, field
from typing import Protocol

from contract.control import Figures, PodFacts

Seconds = float
_FRESH: Seconds = 10.0
"""Figures come every second, from a slow card every few."""
_SILENT: Seconds = 20.0
"""An observer that runs says something every few seconds."""


class Latency(Protocol):
    """What the loop tells of itself."""

    latencies: list[int]
    worked: Seconds


@dataclass(slots=True)
class Node:
    """The latest of it."""

    figures: dict[str, tuple[Seconds, Figures]] = field(default_factory=dict)
    """By GPU, the last that came, and when."""
    pods: dict[str, PodFacts] = field(default_factory=dict)
    """By allocation."""
    pids: dict[int, int] = field(default_factory=dict)
    """Of connected clients, as the kernel says; 0 where it cannot see them."""
    foreign: int = 0
    """Clients whose process belongs to another pod than their socket."""
    loop: Latency | None = None
    refusals: dict[str, int] = field(default_factory=dict)
    """Lines that were refused, by code."""
    observer_spoke_at: Seconds | None = None
    """When the observer last said anything."""

    def why_not_ready(self, now: Seconds) -> str:
        """Return what is missing beside the turns; empty when nothing is."""
        if self.observer_spoke_at is None:
            return "the observer has not come yet: metrics, weights and caps wait for it"
        silent = now - self.observer_spoke_at
        return f"the observer has said nothing for {silent:.0f} s: see the log" if silent > _SILENT else ""

    limits_reached: dict[str, int] = field(default_factory=dict)
    """Times that a container had to wait, or a client was hung up on, by limit."""

    def hear(self, gpu: str, figures: Figures, now: Seconds) -> None:
        """NVML has said something of a card."""
        self.figures[gpu] = (now, figures)

    def lately(self, now: Seconds) -> dict[str, Figures]:
        """What still holds: a card that has gone, or hangs, says nothing new."""
        return {gpu: figures for gpu, (at, figures) in self.figures.items() if now - at <= _FRESH}

    def age(self, now: Seconds) -> Seconds:
        """How old the oldest of that is; where nothing holds, the newest of all."""
        ages = [now - at for at, _ in self.figures.values()]
        return max((age for age in ages if age <= _FRESH), default=min(ages, default=now))

    def forget(self, client: int) -> None:
        """A client has gone."""
        self.pids.pop(client, None)

"""Jain's index of each GPU over a window: 1 when all who wanted it got equal time for their weight.

Pure: samples in, an index out.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Seconds = float
Held = Mapping[tuple[str, str], float]
"""Of (container, GPU): microseconds held, divided by weight."""
_WINDOW: Seconds = 60.0


def jain(amounts: Iterable[float]) -> float:
    """Return the index of some amounts; 1 where there are none."""
    values = list(amounts)
    squares = sum(value * value for value in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


@dataclass
class Fairness:
    """The samples of the last minute."""

    samples: deque[tuple[Seconds, Held]] = field(default_factory=deque)

    def add(self, now: Seconds, held: Held) -> None:
        """Keep a sample; those older than the window go, but for one."""
        self.samples.append((now, held))
        while len(self.samples) > 2 and self.samples[1][0] <= now - _WINDOW:
            self.samples.popleft()

    def index(self, wanting: Mapping[str, Iterable[str]]) -> dict[str, float]:
        """Return each GPU's index, over the containers that hold or want it and were known when the window began."""
        if len(self.samples) < 2:
            return {}
        first, last = self.samples[0][1], self.samples[-1][1]
        gains = {
            gpu: [last[key, gpu] - first[key, gpu] for key in keys if (key, gpu) in first and (key, gpu) in last]
            for gpu, keys in wanting.items()
        }
        return {gpu: jain(amounts) for gpu, amounts in gains.items() if len(amounts) > 1}

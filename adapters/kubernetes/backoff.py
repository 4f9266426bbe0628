"""How long to wait before the next try: longer each time, and never at the same moment as the other replicas.

Pure: the random share is an argument.
"""

from dataclasses import dataclass

Seconds = float
_MAX_DOUBLINGS = 20
"""A float has no room for 2**1024: a day without an API server comes to that."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The first pause, which doubles up to the longest."""

    first: Seconds = 1.0
    longest: Seconds = 30.0

    def pause(self, failures: int, share: float) -> Seconds:
        """Return the pause after so many failures in a row: half to one and a half of its length, by `share`."""
        if failures <= 0:
            return 0.0
        return min(self.first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), self.longest) * (0.5 + share)

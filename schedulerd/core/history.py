"""The memory of containers whose last process has gone: their usage of each GPU, and whether they jammed.

The rule it owns: a container that ends and starts again gets no more than its share.  It is forgotten when it cannot
come again.  Where that is not known, it is forgotten after ten minutes.  If there are too many, the oldest goes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schedulerd.core.usage import Share

Seconds = float
_MAX_HISTORIES = 1024
_KEPT: Seconds = 600.0


@dataclass(frozen=True, slots=True)
class History:
    """The memory of one container."""

    shares: Mapping[str, Share]
    """By GPU: its usage."""
    gang: bool
    until: Seconds


class Histories:
    """The histories by container, in the order in which the containers went."""

    def __init__(self, *, kept: Seconds = _KEPT) -> None:
        self.kept = kept
        self._by_key: dict[str, History] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def keep(self, key: str, shares: Mapping[str, Share], now: Seconds, *, gang: bool) -> None:
        """Keep the usage of a container whose last process has gone, and forget what is too old or too much."""
        self._by_key[key] = History(shares, gang, now + self.kept)
        for oldest, history in tuple(self._by_key.items()):
            if history.until > now and len(self._by_key) <= _MAX_HISTORIES:
                return
            del self._by_key[oldest]

    def take(self, key: str) -> History | None:
        """Take out the history of a container that comes; None if it comes for the first time."""
        return self._by_key.pop(key, None)

    def forget_all_of(self, allocation: str) -> None:
        """Forget the containers of an allocation whose folder has gone.

        They are named after it and will not come again.
        """
        for key in [one for one in self._by_key if one.rpartition(".")[0] == allocation]:
            del self._by_key[key]

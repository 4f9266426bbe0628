"""What is remembered of containers whose last process has gone: what they had of each GPU, and whether they jammed.

The rule it owns: a container that ends and starts again has no more than its share by it.  Forgotten when it cannot
come again, after some minutes where that is not known, and the oldest first when they become too many.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schedulerd.core.usage import Share

Seconds = float
_MAX_HISTORIES = 1024
_KEPT: Seconds = 600.0


@dataclass(frozen=True, slots=True)
class History:
    """One container's."""

    shares: Mapping[str, Share]
    """By GPU."""
    gang: bool
    until: Seconds


class Histories:
    """By container, in the order they went."""

    def __init__(self, *, kept: Seconds = _KEPT) -> None:
        self.kept = kept
        self._by_key: dict[str, History] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def keep(self, key: str, shares: Mapping[str, Share], now: Seconds, *, gang: bool) -> None:
        """A container's last process has gone."""
        self._by_key[key] = History(shares, gang, now + self.kept)
        for oldest, history in tuple(self._by_key.items()):
            if history.until > now and len(self._by_key) <= _MAX_HISTORIES:
                return
            del self._by_key[oldest]

    def take(self, key: str) -> History | None:
        """A container is here again, or for the first time."""
        return self._by_key.pop(key, None)

    def forget_all_of(self, allocation: str) -> None:
        """An allocation's folder has gone: its containers, named after it, will not come again."""
        for key in [one for one in self._by_key if one.rpartition(".")[0] == allocation]:
            del self._by_key[key]

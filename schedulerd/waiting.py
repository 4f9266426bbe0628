"""Who waits for one GPU, in the policy's order, with those that were passed over too often in front.

A heap whose dead entries are dropped when they come up: a wish enters and leaves in logarithmic time.
May import the policies only.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from schedulerd.policies import Policy, Standing


class Waiter(Protocol):
    """What the queue asks of a wish."""

    serial: int
    aged: bool
    together: bool

    @property
    def standings(self) -> Mapping[str, Standing]: ...


W = TypeVar("W", bound=Waiter)
_SLACK = 64
"""Dead entries that are not worth a clean-up."""


class WaitingLine(Generic[W]):
    """The wishes for one GPU."""

    __slots__ = ("_heap", "_policy", "_uuid", "arrivals", "together")

    def __init__(self, uuid: str, policy: Policy) -> None:
        self._uuid = uuid
        self._policy = policy
        self._heap: list[tuple[int, float, int, W]] = []
        self.arrivals: dict[int, W] = {}
        """Who waits, by serial: the oldest first."""
        self.together = 0
        """How many of them want several GPUs in one step."""

    def __len__(self) -> int:
        return len(self.arrivals)

    def add(self, wish: W) -> None:
        """A wish begins to wait."""
        self.arrivals[wish.serial] = wish
        self.together += wish.together
        heappush(self._heap, self._entry(wish))

    def remove(self, wish: W) -> None:
        """A wish waits no longer; its entry dies where it is."""
        if self.arrivals.pop(wish.serial, None) is not None:
            self.together -= wish.together
        if len(self._heap) > 2 * len(self.arrivals) + _SLACK:
            self.reorder(self._policy)

    def top(self) -> W | None:
        """Who goes first."""
        heap = self._heap
        while heap:
            front, _, serial, wish = heap[0]
            if serial in self.arrivals and wish.aged == (front == 0):
                return wish
            heappop(heap)
        return None

    def oldest(self) -> W | None:
        """Who has waited longest."""
        return next(iter(self.arrivals.values()), None)

    def in_order(self) -> Iterator[W]:
        """All, the first first."""
        for front, _, serial, wish in sorted(self._heap):
            if serial in self.arrivals and wish.aged == (front == 0):
                yield wish

    def put_in_front(self, wish: W) -> None:
        """A wish has aged: its old entry is dead from now on."""
        heappush(self._heap, self._entry(wish))

    def reorder(self, policy: Policy) -> None:
        """Build the heap anew, by the policy given."""
        self._policy = policy
        self._heap = [self._entry(wish) for wish in self.arrivals.values()]
        heapify(self._heap)

    def _entry(self, wish: W) -> tuple[int, float, int, W]:
        if wish.aged:
            return (0, 0.0, wish.serial, wish)
        return (1, self._policy.rank(wish.standings[self._uuid]), wish.serial, wish)

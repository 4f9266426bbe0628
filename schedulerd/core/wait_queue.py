"""The queue of requests for one GPU.

The rule it owns: requests stand in the policy's order; requests that were passed over too often stand in front.  It is
a sorted list, because most requests come at its end and leave at its front.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from schedulerd.policies import Policy, Snapshot


class Waiter(Protocol):
    """The fields of a request that the queue needs."""

    serial: int
    aged: bool
    together: bool

    @property
    def snapshots(self) -> Mapping[str, Snapshot]: ...


W = TypeVar("W", bound=Waiter)
Entry = tuple[int, float, int, W]
"""In front or behind, the policy's rank, the serial, the request."""
_IN_FRONT, _BEHIND = 0, 1


class WaitQueue(Generic[W]):
    """The requests for one GPU."""

    __slots__ = ("_line", "_policy", "_uuid", "arrivals", "together")

    def __init__(self, uuid: str, policy: Policy) -> None:
        self._uuid = uuid
        self._policy = policy
        self._line: list[Entry[W]] = []
        self.arrivals: dict[int, W] = {}
        """The requests by serial: the oldest first."""
        self.together = 0
        """The number of requests that want several GPUs in one step."""

    def __len__(self) -> int:
        return len(self.arrivals)

    def add(self, request: W) -> None:
        """Add a request that begins to wait."""
        self.arrivals[request.serial] = request
        self.together += request.together
        self._insert(self._by_rank(request))

    def remove(self, request: W) -> None:
        """Remove a request that waits no longer."""
        if self.arrivals.pop(request.serial, None) is not None:
            self.together -= request.together
            if self._line[0][3] is request:
                del self._line[0]
            else:
                self._take_out(self._entry(request))

    def top(self) -> W | None:
        """Return the request that goes first."""
        return self._line[0][3] if self._line else None

    def oldest(self) -> W | None:
        """Return the request that has waited longest."""
        return next(iter(self.arrivals.values()), None)

    def in_order(self) -> Iterator[W]:
        """Yield all requests in their order."""
        for *_, request in self._line:
            yield request

    def put_in_front(self, request: W) -> None:
        """Put a request that has aged in front."""
        self._take_out(self._by_rank(request))
        self._insert(self._entry(request))

    def reorder(self, policy: Policy) -> None:
        """Put all requests into the order of another policy."""
        self._policy = policy
        self._line = sorted(map(self._entry, self.arrivals.values()), key=itemgetter(0, 1, 2))

    def _entry(self, request: W) -> Entry[W]:
        if request.aged:
            return (_IN_FRONT, 0.0, request.serial, request)
        return self._by_rank(request)

    def _by_rank(self, request: W) -> Entry[W]:
        return (_BEHIND, self._policy.rank(request.snapshots[self._uuid]), request.serial, request)

    def _insert(self, entry: Entry[W]) -> None:
        # Serials differ, so two requests are never compared.
        if self._line and entry < self._line[-1]:
            insort(self._line, entry)
        else:
            self._line.append(entry)

    def _take_out(self, entry: Entry[W]) -> None:
        del self._line[bisect_left(self._line, entry)]

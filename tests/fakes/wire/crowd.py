"""Many clients over real sockets in one process; each does what PROTOCOL.md asks, even when the daemon is lost.

Every holder of a GPU is on the board.  A grant that meets another holder there is a double grant, and is found at that
moment.
"""

import random
import select
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.wire.client import Client

RETRY = 0.05
ANNOUNCE = 2.0


class DoubleGrant(AssertionError):
    """Two containers have one GPU."""


@dataclass
class Member:
    """One process of a container of its own; `kernel` is how long it takes to drain, `burst` how long it has work."""

    key: str
    gpus: str
    words: dict[str, object] = field(default_factory=dict)
    kernel: float = 0.002
    burst: float = float("inf")
    rest: float = 0.0
    client: Client | None = None
    holding: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wanted_at: dict[str, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    turns: int = 0
    lost_at: float | None = None
    due: list[tuple[float, str, str]] = field(default_factory=list)
    """When to answer which turn, and why."""


class Crowd:
    """All members and the board."""

    def __init__(self, socket: Path, members: list[Member], *, seed: int = 1) -> None:
        self.socket = socket
        self.members = members
        self.random = random.Random(seed)
        self.board: dict[str, str] = {}
        self.served_since: set[str] = set()
        for one in members:
            self.connect(one)

    def connect(self, one: Member) -> bool:
        held = ",".join(f"{turn}@{gpu}" for turn, gpus in one.holding.items() for gpu in gpus)
        words = {**one.words, **({"holding": held} if held else {})}
        try:
            one.client = Client(self.socket, container=one.key, gpus=one.gpus, hello=False, **words)
            one.client.hello()
        except OSError:
            one.client = None
            return False
        one.lost_at = None
        if not held:
            self.want(one)
        one.due = [(at, "", why) for at, turn, why in one.due if not turn]
        return True

    def want(self, one: Member) -> None:
        now = time.monotonic()
        held = {gpu for gpus in one.holding.values() for gpu in gpus}
        missing = [gpu for gpu in one.gpus.split(",") if gpu not in held]
        for gpu in missing:
            one.wanted_at.setdefault(gpu, now)
        if missing:
            self.say(one, "want", gpus=",".join(missing))

    def say(self, one: Member, verb: str, **words: object) -> None:
        if one.client is None:
            return
        try:
            one.client.say(verb, **words)
        except OSError:
            self.lost(one)

    def lost(self, one: Member) -> None:
        if one.client is not None:
            one.client.close()
        one.client = None
        one.lost_at = time.monotonic()
        one.due = [(one.lost_at + RETRY, "", "connect")]

    # ------------------------------------------------------------------ time

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            self.step(min(until, self._next_due()) - now)

    def run_until(self, said: Callable[[], object], within: float) -> float:
        """Run until something is true, and return the seconds that took."""
        began = time.monotonic()
        while not said():
            if time.monotonic() - began > within:
                raise AssertionError(f"not within {within} s")
            self.step(min(0.01, max(0.0, self._next_due() - time.monotonic())))
        return time.monotonic() - began

    def _next_due(self) -> float:
        return min((at for one in self.members for at, _, _ in one.due), default=float("inf"))

    def step(self, seconds: float) -> None:
        connected = {one.client.socket.fileno(): one for one in self.members if one.client is not None}
        poll = select.epoll()
        for descriptor in connected:
            poll.register(descriptor, select.EPOLLIN)
        for descriptor, _ in poll.poll(max(0.0, min(seconds, 1.0))):
            self.listen(connected[descriptor])
        poll.close()
        now = time.monotonic()
        for one in self.members:
            for entry in [due for due in one.due if due[0] <= now]:
                one.due.remove(entry)
                self.act(one, entry[1], entry[2], now)

    def act(self, one: Member, turn: str, why: str, now: float) -> None:
        if why == "connect":
            if one.lost_at is not None and now - one.lost_at > ANNOUNCE:
                self.let_go_of_all(one)
            if one.client is None and not self.connect(one):
                one.due.append((now + RETRY, "", "connect"))
        elif why == "want":
            self.want(one)
        elif turn in one.holding:
            self.let_go(one, turn)
            self.say(one, "done", turn=turn, reason=why)
            one.due.append((now + (one.rest if why == "idle" else 0.0), "", "want"))

    # ------------------------------------------------------------------ what is heard

    def listen(self, one: Member) -> None:
        try:
            while one.client is not None and (line := one.client.next(within=0)) is not None:
                getattr(self, f"hear_{line.verb}")(one, line.words)
        except OSError:
            self.lost(one)

    def hear_grant(self, one: Member, words: Mapping[str, str]) -> None:
        gpus, turn = tuple(words["gpus"].split(",")), words["turn"]
        now = time.monotonic()
        for old, theirs in list(one.holding.items()):
            if old.split(".")[0] != turn.split(".")[0] and set(theirs) & set(gpus):
                self.let_go(one, old)
        for gpu in gpus:
            if self.board.get(gpu, one.key) != one.key and words["beside"] == "0" and self.gate_is_open(gpu):
                raise DoubleGrant(f"{one.key} was granted {gpu}, which {self.board[gpu]} has")
            self.board[gpu] = one.key
            if gpu in one.wanted_at:
                one.waits.append(now - one.wanted_at.pop(gpu))
        if turn not in one.holding:
            one.turns += 1
            if one.burst < float("inf"):
                one.due.append((now + one.burst, turn, "idle"))
        one.holding[turn] = gpus
        self.served_since.add(one.key)

    def gate_is_open(self, gpu: str) -> bool:
        """Tell whether a holder on the board may still launch; it may not have read yet that its turn was taken."""
        holder = next(member for member in self.members if member.key == self.board[gpu])
        return holder.client is None or holder.client.word(holder.gpus.split(",").index(gpu)) != 0

    def hear_yield(self, one: Member, words: Mapping[str, str]) -> None:
        one.due.append((time.monotonic() + self.random.uniform(0, one.kernel), words["turn"], "yield"))

    def hear_revoked(self, one: Member, words: Mapping[str, str]) -> None:
        self.let_go(one, words["turn"])
        self.want(one)

    def hear_wanted(self, one: Member, words: Mapping[str, str]) -> None:
        """Ignore that another client waits: this one is busy for as long as it holds."""

    def hear_error(self, one: Member, words: Mapping[str, str]) -> None:
        raise AssertionError(f"{one.key} heard {dict(words)}")

    def let_go(self, one: Member, turn: str) -> None:
        for gpu in one.holding.pop(turn, ()):
            if self.board.get(gpu) == one.key:
                del self.board[gpu]

    def let_go_of_all(self, one: Member) -> None:
        for turn in list(one.holding):
            self.let_go(one, turn)

    def close(self) -> None:
        for one in self.members:
            if one.client is not None:
                one.client.close()


def longest_waits(members: list[Member]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for one in members:
        still = [time.monotonic() - at for at in one.wanted_at.values()]
        found[one.key] = max(one.waits + still, default=0.0)
    return found

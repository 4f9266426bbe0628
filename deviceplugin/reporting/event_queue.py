"""What is told to the cluster, and how often: the Node's words when they change, events when something happens.

Owns the bounded rate: however many pods come and go, the API server sees a write each few seconds at most, and a
repeated event as one with a count.  Pure, the clock is an argument.  May import `node_words` only.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace

from deviceplugin.core.node_labels import NodeWords

REFRESH_SECONDS = 300.0
"""The words are written anew so often even unchanged: somebody may have taken them away."""
LONGEST_BACKOFF_SECONDS = 60.0
_MOST_DOUBLINGS = 20
"""2**1024 is no float: a day without an API server comes to that."""
EVENT_SECONDS = 30.0
"""The same event again is told so often at most, with its count."""
MOST_EVENTS = 50
"""Kinds of events waiting at once."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on this node, so many times."""

    reason: str
    message: str
    is_warning: bool
    times: int = 1


@dataclass(frozen=True, slots=True)
class WordsReport:
    """What the Node was told, and when it may be told again."""

    told: NodeWords | None = None
    told_at: float = 0.0
    not_before: float = 0.0
    failures: int = 0


def words_to_tell(report: WordsReport, wanted: NodeWords, *, now: float, urgent: bool = False) -> bool:
    """Is it time to write the words?  Urgent ones need not wait for the rate, since a label seldom changes."""
    if now < report.not_before and not (urgent and report.failures == 0):
        return False
    return wanted != report.told or now - report.told_at >= REFRESH_SECONDS


def words_told(words: NodeWords, *, now: float, seconds: float) -> WordsReport:
    """After the API server took them."""
    return WordsReport(told=words, told_at=now, not_before=now + seconds)


def words_failed(report: WordsReport, *, now: float, seconds: float) -> WordsReport:
    """After it did not: later each time."""
    wait = min(seconds * 2 ** min(report.failures, _MOST_DOUBLINGS), LONGEST_BACKOFF_SECONDS)
    return replace(report, failures=report.failures + 1, not_before=now + wait)


@dataclass(slots=True)
class EventQueue:
    """Events that wait to be told; the same reason and message are one."""

    waiting: "OrderedDict[tuple[str, str], Event]" = field(default_factory=OrderedDict)
    told_at: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """One more; the oldest kind is dropped when there are too many."""
        name = (event.reason, event.message)
        before = self.waiting.get(name)
        self.waiting[name] = event if before is None else replace(before, times=before.times + event.times)
        while len(self.waiting) > MOST_EVENTS:
            self.waiting.popitem(last=False)

    def due(self, *, now: float) -> list[Event]:
        """Those to tell now; they are taken out."""
        self.told_at = {name: at for name, at in self.told_at.items() if now - at < EVENT_SECONDS}
        names = [name for name in self.waiting if name not in self.told_at]
        self.told_at.update(dict.fromkeys(names, now))
        return [self.waiting.pop(name) for name in names]

"""Which GPUs are another plugin's: remembered, for the kubelet shows those of a plugin that is away no longer.

Owns the rule.  A GPU is another's from the first moment that anything says so, until the kubelet has shown it neither
as given out nor in a pod's hands for a grace: its pods run on while its plugin is rolled out, crashes, or registers
after ours.  Pure, the clock is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignGpu:
    """One GPU of another plugin's."""

    resource: str
    unseen_since: float | None = None
    """The first of the whole answers in a row that did not show it."""


def remember(
    others: Mapping[str, ForeignGpu], seen: Mapping[str, str], *, now: float, seconds: float, is_whole: bool
) -> dict[str, ForeignGpu]:
    """After a look; one that is not whole proves nothing of what it does not show, and the grace begins anew."""
    found = {uuid: ForeignGpu(resource) for uuid, resource in seen.items()}
    for uuid, other in others.items():
        since = _unseen_since(other, now) if is_whole else None
        if uuid not in found and (since is None or now - since <= seconds):
            found[uuid] = ForeignGpu(other.resource, since)
    return found


def _unseen_since(other: ForeignGpu, now: float) -> float:
    return now if other.unseen_since is None else other.unseen_since


def resources(others: Mapping[str, ForeignGpu]) -> dict[str, str]:
    """Each GPU with the resource under which it is given out."""
    return {uuid: other.resource for uuid, other in others.items()}


def render_foreign(found: Mapping[str, str]) -> str:
    """As a note: a GPU and its resource a line."""
    return "".join(f"{uuid} {resource}\n" for uuid, resource in sorted(found.items()))


def read_foreign(text: str) -> dict[str, str]:
    """Of such a note; a line that is not whole is passed over."""
    lines = (line.split(" ") for line in text.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2 and all(words)}

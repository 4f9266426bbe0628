"""Remember which GPUs other plugins serve, since the kubelet stops showing them while a plugin is away.

The module owns the rule.  A GPU belongs to another plugin from the moment that any source says so.  It stays that
plugin's until the kubelet has shown it neither as offered nor as used for a grace time.  The reason: its pods keep
running while the other plugin is updated, crashes, or registers after ours.  Pure: the clock is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignGpu:
    """One GPU of another plugin."""

    resource: str
    unseen_since: float | None = None
    """When the first of the complete answers in a row came that did not show it."""


def remember(
    known: Mapping[str, ForeignGpu], seen: Mapping[str, str], *, now: float, seconds: float, is_whole: bool
) -> dict[str, ForeignGpu]:
    """Return the foreign GPUs after a look at the kubelet.

    An incomplete answer proves nothing about a GPU that it does not show, and the grace time begins again.
    """
    found = {uuid: ForeignGpu(resource) for uuid, resource in seen.items()}
    for uuid, gpu in known.items():
        since = _unseen_since(gpu, now) if is_whole else None
        if uuid not in found and (since is None or now - since <= seconds):
            found[uuid] = ForeignGpu(gpu.resource, since)
    return found


def _unseen_since(gpu: ForeignGpu, now: float) -> float:
    return now if gpu.unseen_since is None else gpu.unseen_since


def resources(known: Mapping[str, ForeignGpu]) -> dict[str, str]:
    """Return each GPU with the resource under which another plugin offers it."""
    return {uuid: gpu.resource for uuid, gpu in known.items()}


def render_foreign(found: Mapping[str, str]) -> str:
    """Return the state file's text: one GPU and its resource a line."""
    return "".join(f"{uuid} {resource}\n" for uuid, resource in sorted(found.items()))


def read_foreign(text: str) -> dict[str, str]:
    """Read the state file's text; skip an incomplete line."""
    lines = (line.split(" ") for line in text.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2 and all(words)}

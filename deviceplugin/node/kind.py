"""Read what decides whether this node can hold the gate: its kernel, its architecture, the first bytes of a hook."""

import os
from pathlib import Path

from deviceplugin.core.node_limits import NodeKind, why_not
from deviceplugin.errors import NodeNotReady

_HEAD_BYTES = 20


def read_kind() -> NodeKind:
    """Return kernel and architecture; a container has the node's own."""
    told = os.uname()
    return NodeKind(told.release, told.machine)


def read_head(file: Path) -> bytes | None:
    """Return the first bytes of a file; None where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_HEAD_BYTES)
    except OSError:
        return None


def refuse_unfit_node(hook: Path, kind: NodeKind | None = None) -> None:
    """Raise `NodeNotReady` where kernel, architecture or hook cannot hold the gate: turns would not be turns."""
    why = why_not(kind or read_kind(), read_head(hook) or b"")
    if why:
        raise NodeNotReady(f"GPUs are not shared on this node. {why}")

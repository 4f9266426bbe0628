"""Put a CDI spec in its place and notice when the runtime has read it.

The module owns how that is noticed.  The runtime's cache keeps its lock from before it opens the file until it knows
the new spec, and no container is made without that lock.  So after the file was opened, nobody is given the old spec.
Another reader of the folder may open it first; where that would matter, a time is waited for besides.  Only this
module opens our specs after their rename, and it does not: our own look would answer in the runtime's place.
"""

import contextlib
import logging
import os
import threading
import time
from pathlib import Path

from deviceplugin.core.binding import Wait
from deviceplugin.node.inotify import MOVE_SELF, OPEN, Inotify

log = logging.getLogger(__name__)
CEILING_SECONDS = 1.0
"""A runtime whose own watch fails reads the folder at each container, and opens nothing before."""
SETTLE_SECONDS = 0.2
"""In this time every reader had read: 0 of 640 starts were wrong with another writer and a reader in the folder."""
PARTIAL = "."
"""An unfinished file begins with this and does not end in .json, so that no reader takes it for a spec."""


def put_spec(path: Path, text: str, wait: Wait) -> float:
    """Write the spec by rename within its folder, and wait as told; return the seconds that were waited.

    The unfinished file lies in the same folder: a rename from another one is news that the runtime's cache ignores.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{PARTIAL}{path.name}.{os.getpid()}.{threading.get_ident()}")
    partial.write_text(text)
    partial.chmod(0o644)
    with contextlib.ExitStack() as stack:
        watch = _watch(partial, stack)
        began = time.monotonic()
        partial.rename(path)
        seen = watch is not None and _is_opened(watch, until=began + CEILING_SECONDS)
        if wait is Wait.SETTLED or watch is None:
            # nobody says when the last reader has read
            time.sleep(max(0.0, began + SETTLE_SECONDS - time.monotonic()))
        if watch is not None and not seen:
            log.warning("no runtime has opened %s within %g s: the container starts anyway", path, CEILING_SECONDS)
        return time.monotonic() - began


def _watch(partial: Path, stack: contextlib.ExitStack) -> Inotify | None:
    try:
        watch = stack.enter_context(Inotify())
        watch.watch(partial, OPEN | MOVE_SELF)
    except OSError as error:
        log.warning("%s: a fixed time is waited for instead of the runtime", error)
        return None
    return watch


def _is_opened(watch: Inotify, *, until: float) -> bool:
    """Wait for an open after the rename; one before it was of the unfinished file."""
    has_moved = False
    while (left := until - time.monotonic()) > 0:
        for news in watch.read(left):
            has_moved = has_moved or bool(news.mask & MOVE_SELF)
            if has_moved and news.mask & OPEN:
                return True
    return False

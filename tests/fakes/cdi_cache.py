"""A reader of a CDI folder that does as the runtime's cache does: after each news it opens every spec, one by one.

Use it where no runtime runs.  The real one is on the node of testbed/cluster.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deviceplugin.node.inotify import CLOSE_WRITE, DELETE, MOVED_TO, Inotify

_PIECE_SECONDS = 0.05


class CdiCache:
    """What the cache knows: devices by their full names; `lag` makes it as slow as one in a busy folder."""

    def __init__(self, folder: Path, *, lag: float = 0.0) -> None:
        self.folder, self.lag = folder, lag
        self.devices: Mapping[str, Any] = {}
        self.scans = 0
        self._stop = threading.Event()
        self._is_ready = threading.Event()

    def inject(self, name: str) -> dict[str, Any]:
        """Return the edits of one device, the spec's and its own; raise KeyError where it cannot be resolved."""
        found: dict[str, Any] = self.devices[name]
        return found

    def run(self) -> None:
        with Inotify() as watch:
            watch.watch(self.folder, MOVED_TO | CLOSE_WRITE | DELETE)
            self._scan()
            self._is_ready.set()
            while not self._stop.is_set():
                if watch.read(_PIECE_SECONDS):
                    self._stop.wait(self.lag)
                    self._scan()

    def _scan(self) -> None:
        found: dict[str, Any] = {}
        for path in sorted(self.folder.iterdir()):
            if path.suffix == ".json":
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    spec = json.loads(path.read_text())
                    for device in spec["devices"]:
                        edits = {"spec": spec.get("containerEdits", {}), "device": device["containerEdits"]}
                        found[f"{spec['kind']}={device['name']}"] = edits
        self.devices = found
        self.scans += 1

    @contextmanager
    def running(self) -> Iterator["CdiCache"]:
        self.folder.mkdir(parents=True, exist_ok=True)
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        assert self._is_ready.wait(10)
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(10)

"""The daemon as on a node: one socket for each allocation."""

import json
import time
from pathlib import Path

from tests.fakes.wire.client import PATIENCE, Daemon, Silence


class NodeDaemon(Daemon):
    """The daemon as on a node: one socket an allocation."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.allocations = folder / "allocations"
        super().__init__(folder, "--identity=folders", f"--allocations={self.allocations}", *flags)

    def wait_until_ready(self) -> None:
        ready, self.socket = self.socket, self.control
        try:
            super().wait_until_ready()
        finally:
            self.socket = ready

    def allocate(self, key: str, *uuids: str, created: float = 1.0) -> Path:
        """Do what the device plugin does: rename a whole folder into place, or replace its description."""
        text = json.dumps(
            {"key": key, "uuids": uuids, "device_ids": [f"{uuid}__0" for uuid in uuids], "created": created}
        )
        ready = self.allocations / key
        if ready.exists():
            (ready / "new").write_text(text)
            (ready / "new").rename(ready / "allocation.json")
        else:
            hidden = self.allocations / f".{key}"
            hidden.mkdir(parents=True)
            (hidden / "allocation.json").write_text(text)
            hidden.rename(ready)
        return self.wait_for(ready / "scheduler.sock")

    @staticmethod
    def wait_for(path: Path) -> Path:
        until = time.monotonic() + PATIENCE
        while not path.exists():
            if time.monotonic() > until:
                raise Silence(f"{path} does not come")
            time.sleep(0.005)
        return path

"""Containers as the device plugin makes them: each has an allocation folder, whose socket is its identity.

It writes the two files of an allocation.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.words import paths
from tests.fakes.wire.client import Daemon
from tests.fakes.wire.observed_daemon import until


class Containers:
    """A real daemon that knows containers by their folders."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder, self.allocations = folder, folder / "allocations"
        self.allocations.mkdir(exist_ok=True)
        self.daemon = Daemon(folder, "--identity=folders", f"--allocations={self.allocations}", *flags)
        self.daemon.socket = self.daemon.control  # there is no shared one; who is ready answers here as well

    def add(self, key: str, *uuids: str, **facts: object) -> Path:
        """Make a container with these GPUs; return the sockets folder that its programs are given."""
        home, mine = self.allocations / key, self.folder / f"sockets-{key}"
        home.mkdir()
        mine.mkdir()
        created = time.time()
        record = {"key": key, "uuids": uuids, "device_ids": [f"{uuid}__0" for uuid in uuids], "created": created}
        if facts:
            pod = {"of": f"{key}.{round(created * 1000)}", "uid": f"uid-{key}", **facts}
            (home / "pod.json").write_text(json.dumps(pod))
        partial = home / ".partial"
        partial.write_text(json.dumps(record))
        partial.rename(home / paths.ALLOCATION_FILE)
        (mine / paths.OWN_FOLDER).symlink_to(home)
        self._wait_for_socket(home)
        return mine

    def _wait_for_socket(self, home: Path) -> None:
        """Wait until the daemon listens in the folder; say what it logged if it does not."""
        try:
            until((home / paths.SOCKET_NAME).exists)
        except AssertionError:
            process = self.daemon.process
            ended = None if process is None else process.poll()
            raise AssertionError(f"no socket in {home.name}; exit code {ended}; log:\n{self.daemon.log()}") from None


@contextmanager
def known_containers(folder: Path, *flags: str) -> Iterator[Containers]:
    """Run the daemon for the length of a block."""
    containers = Containers(folder, *flags)
    containers.daemon.start()
    try:
        yield containers
    finally:
        if containers.daemon.process is not None and containers.daemon.process.poll() is None:
            containers.daemon.end()

"""What is made once and kept: `~/.cache/nvshare-guard` (or under `XDG_CACHE_HOME`), one folder a key.

The rule: a folder with its final name is complete.  It is filled under another name and renamed, behind a file lock.
So two makers at once do the work once, and a killed maker leaves nothing that looks finished.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]


def root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "nvshare-guard"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(*parts: bytes) -> str:
    """Return a short key of the things that something is made from."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:12]


@contextmanager
def locked(path: Path, *, say: Say = lambda _: None) -> Iterator[None]:
    """Hold the lock of `path`; the lock of a killed holder falls with it."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is at work on {path.stem}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def filled(name: str, fill: Callable[[Path], None], *, say: Say) -> Path:
    """Return the cache's folder `name`; call `fill(folder)` to make it when it does not exist yet."""
    folder = root() / name
    if folder.is_dir():
        return folder
    with locked(root() / f"{name}.lock", say=say):
        if not folder.is_dir():
            unfinished = root() / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            fill(unfinished)
            unfinished.rename(folder)
    return folder

"""A small note on the node: what was true last, for a start without those who could say it.

Owns how it is kept: whole or not at all, by rename, and only where it would change.  A disk that takes none is told
once and stops nobody.
"""

import contextlib
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class StateFile:
    """One file; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_told = False

    def read(self) -> str:
        """Its text; empty where there is none."""
        try:
            return self._path.read_text()
        except (OSError, UnicodeDecodeError):
            return ""

    def write(self, text: str) -> None:
        """Leaves an equal note alone."""
        if text == self.read():
            return
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(text)
            partial.rename(self._path)
        except OSError as error:
            self._tell(error)
            with contextlib.suppress(OSError):
                partial.unlink()
        else:
            self._is_told = False

    def _tell(self, error: OSError) -> None:
        if not self._is_told:
            log.warning("%s cannot be written (%s): the next start may not know what it says", self._path, error)
        self._is_told = True

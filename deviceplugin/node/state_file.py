"""A small file on the node that keeps what was true last, for a start while its source is away.

The module owns how it is kept: whole or not at all, by rename, and written only where it would change.  A disk that
cannot be written is logged once and stops nothing.
"""

import contextlib
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class StateFile:
    """One file, used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_told = False

    def read(self) -> str:
        """Return its text; an empty text where there is no file."""
        try:
            return self._path.read_text()
        except (OSError, UnicodeDecodeError):
            return ""

    def write(self, text: str) -> None:
        """Write the text, unless the file holds it already."""
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
            log.warning("%s cannot be written (%s): the next start may not know its content", self._path, error)
        self._is_told = True

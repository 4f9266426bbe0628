"""NVIDIA's CDI specs in the node's folders, read when they have changed.

The module owns which files count.  A file counts by its name or by the kind that stands in it; others belong to other
makers and are not judged.  Our own specs are never opened here: that would answer in the runtime's place
(`handshake.py`).
"""

import json
import logging
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import yaml

from adapters.kubernetes.manifests import read_documents
from contract.words import names
from deviceplugin.core.device_edits import ForeignSpec, read_spec
from deviceplugin.core.gpu_devices import KINDS, FoundSpecs, Malformed
from deviceplugin.errors import BadSpec
from deviceplugin.node import inotify
from deviceplugin.node.inotify import Inotify

log = logging.getLogger(__name__)
_OURS = names.CDI_KIND.replace("/", "-") + "_"
_NAMES = re.compile(r"(nvidia|((management|k8s\.device-plugin)\.)?nvidia\.com-gpu)([._-].*)?\.(json|ya?ml)")
_MOST_BYTES = 16 << 20
_CHANGES = inotify.CLOSE_WRITE | inotify.MOVED_FROM | inotify.MOVED_TO | inotify.DELETE | inotify.DELETE_SELF
_LOOK_SECONDS = 5.0
"""How long a folder that comes into being may go unnoticed."""
_PIECE_SECONDS = 0.5
_FLOOD_SECONDS = 0.1
Signature = tuple[int, int, int]
"""Inode, size and time of a file: all three the same means the same content."""
Answer = ForeignSpec | Malformed | None


class CdiFolders:
    """The folders in the order of their priority, lowest first; several threads may call it."""

    def __init__(self, *folders: Path) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._known: dict[Path, tuple[Signature, Answer]] = {}
        self._found = FoundSpecs()
        self._lock = threading.Lock()

    def read(self) -> FoundSpecs:
        """Return what the folders hold now; the same object while nothing has changed."""
        with self._lock:
            seen = {path: self._look(path, place) for place, path in self._paths()}
            self._known = {path: known for path, known in seen.items() if known is not None}
            answers = [answer for _, answer in self._known.values()]
            found = FoundSpecs(
                tuple(answer for answer in answers if isinstance(answer, ForeignSpec)),
                tuple(answer for answer in answers if isinstance(answer, Malformed)),
            )
            if found != self._found:
                self._found = found
            return self._found

    def _paths(self) -> list[tuple[int, Path]]:
        return [
            (place, path)
            for place, folder in enumerate(self._folders)
            for path in _list(folder)
            if path.suffix in (".json", ".yaml") and not path.name.startswith((_OURS, "."))
        ]

    def _look(self, path: Path, place: int) -> tuple[Signature, Answer] | None:
        try:
            about = path.stat()
        except OSError:
            return None  # it has gone since the list was made
        signature = (about.st_ino, about.st_size, about.st_mtime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == signature:
            return known
        is_file = stat.S_ISREG(about.st_mode) and about.st_size <= _MOST_BYTES
        return (signature, _read(path, place) if is_file else None)

    def follow(self, on_change: Callable[[], None], is_over: Callable[[float], bool]) -> None:
        """Call `on_change` after each change by others, until `is_over(seconds)` says so."""
        while not is_over(0.0):
            try:
                with Inotify() as watch:
                    missing = [folder for folder in self._folders if not _watches(watch, folder)]
                    on_change()  # what has changed while nobody watched
                    _wait_for_another_folder(watch, on_change, is_over, some_are_missing=bool(missing))
            except OSError as error:
                log.warning("%s: the CDI folders are looked at every %g s instead", error, _LOOK_SECONDS)
                on_change()
                is_over(_LOOK_SECONDS)


def _watches(watch: Inotify, folder: Path) -> bool:
    try:
        watch.watch(folder, _CHANGES)
    except OSError as error:
        log.debug("%s is not watched: %s", folder, error)
        return False
    return True


def _wait_for_another_folder(
    watch: Inotify, on_change: Callable[[], None], is_over: Callable[[float], bool], *, some_are_missing: bool
) -> None:
    """Report changes; return when a folder is gone, or after a while where one has never been there."""
    pieces = int(_LOOK_SECONDS / _PIECE_SECONDS)
    while not is_over(0.0):
        news = watch.read(_PIECE_SECONDS)
        pieces -= 1
        if any(each.mask & (inotify.DELETE_SELF | inotify.IGNORED) for each in news):
            return
        if any(not each.name.startswith((_OURS, ".")) for each in news):
            if is_over(_FLOOD_SECONDS):  # more comes with it
                return
            on_change()
        if some_are_missing and pieces <= 0:
            return


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path, place: int) -> Answer:
    is_named = _NAMES.fullmatch(path.name) is not None
    try:
        text = path.read_text()
        if not is_named and not any(kind in text for kind in KINDS):
            return None
        spec = read_spec(str(path), _parse(path, text), place)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, yaml.YAMLError, BadSpec, RecursionError) as error:
        return Malformed(str(path), " ".join(str(error).split()) or type(error).__name__)
    return spec if spec.kind in KINDS else None


def _parse(path: Path, text: str) -> object:
    if path.suffix == ".json":
        return json.loads(text)
    documents = list(read_documents(text))
    if len(documents) != 1:
        raise BadSpec(f"it holds {len(documents)} documents instead of one")
    return documents[0]

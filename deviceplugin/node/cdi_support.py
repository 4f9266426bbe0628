"""Whether this node's runtime takes CDI devices: what `--inject auto` means.

Owns the table of versions, and the note of the last answer: a plugin that starts while the API server is away goes on
as it did before.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from deviceplugin.node.state_file import StateFile
from deviceplugin.reporting.node_reports import Cluster, ClusterUnavailable
from deviceplugin.settings import Inject

log = logging.getLogger(__name__)
STATE_FILE = "injection"
_VALUES = (Inject.CDI, Inject.MOUNTS)
"""Anything else is no note."""
_RETRY_SECONDS = 10.0
_FIRST_KUBELET = (1, 29)
"""Passes CDI devices of a plugin to the runtime without being told to."""
_FIRST_RUNTIMES = {"containerd": (2, 0), "cri-o": (1, 23)}
"""Read CDI specs without being told to."""


def takes_cdi(node_info: Mapping[str, str]) -> bool:
    """Does a node of these versions take CDI devices?  An unknown runtime does not."""
    runtime, _, version = node_info.get("runtime", "").partition("://")
    first = _FIRST_RUNTIMES.get(runtime)
    return first is not None and _version(version) >= first and _version(node_info.get("kubelet", "")) >= _FIRST_KUBELET


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


class Injection:
    """The answer, at once where it was known before, and kept true in the background."""

    def __init__(self, inject: Inject, root: Path, cluster: Cluster | None) -> None:
        self._inject, self._state_file, self._cluster = inject, StateFile(root / STATE_FILE), cluster

    def decide(self) -> bool:
        """Is CDI used?  What is left open is read from the note; on the first start of a node the cluster is asked."""
        if self._inject is not Inject.AUTO:
            return self._inject is Inject.CDI
        noted = self._state_file.read().strip()
        return noted == Inject.CDI if noted in _VALUES else self._ask() or False

    def keep_asking(self, on_answer: Callable[[bool], None], stop: threading.Event) -> None:
        """Asks until the cluster has answered once."""
        while self._inject is Inject.AUTO and self._cluster is not None and not stop.is_set():
            answer = self._ask()
            if answer is not None:
                on_answer(answer)
                return
            stop.wait(_RETRY_SECONDS)

    def _ask(self) -> bool | None:
        """The cluster's answer, noted for the next start; None where there is none."""
        if self._cluster is None:
            return None
        try:
            answer = takes_cdi(self._cluster.read_node_info())
        except ClusterUnavailable as error:
            log.warning("cannot ask for this node's versions: %s", error)
            return None
        self._state_file.write((Inject.CDI if answer else Inject.MOUNTS) + "\n")
        return answer

"""Find out whether this node's runtime takes CDI devices: the meaning of `--inject auto`.

The module owns the table of versions, and the state file with the last answer.  A plugin that starts while the API
server is away goes on as before.
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
"""Any other text in the state file is ignored."""
_RETRY_SECONDS = 10.0
_FIRST_KUBELET = (1, 29)
"""The first version that passes a plugin's CDI devices to the runtime without a setting."""
_FIRST_RUNTIMES = {"containerd": (2, 0), "cri-o": (1, 23)}
"""The first versions that read CDI specs without a setting."""


def takes_cdi(node_info: Mapping[str, str]) -> bool:
    """Return whether a node of these versions takes CDI devices; an unknown runtime does not."""
    runtime, _, version = node_info.get("runtime", "").partition("://")
    first = _FIRST_RUNTIMES.get(runtime)
    return first is not None and _version(version) >= first and _version(node_info.get("kubelet", "")) >= _FIRST_KUBELET


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


class Injection:
    """The answer for this node: known at once where it was known before, and kept true in the background."""

    def __init__(self, inject: Inject, root: Path, cluster: Cluster | None) -> None:
        self._inject, self._state_file, self._cluster = inject, StateFile(root / STATE_FILE), cluster

    def decide(self) -> bool:
        """Decide whether CDI is used.

        For `auto` the state file answers.  Where it holds nothing, which is so on a node's first start, ask the
        cluster.
        """
        if self._inject is not Inject.AUTO:
            return self._inject is Inject.CDI
        noted = self._state_file.read().strip()
        return noted == Inject.CDI if noted in _VALUES else self._ask() or False

    def keep_asking(self, on_answer: Callable[[bool], None], stop: threading.Event) -> None:
        """Ask until the cluster has answered once."""
        while self._inject is Inject.AUTO and self._cluster is not None and not stop.is_set():
            answer = self._ask()
            if answer is not None:
                on_answer(answer)
                return
            stop.wait(_RETRY_SECONDS)

    def _ask(self) -> bool | None:
        """Ask the cluster, and keep its answer for the next start; return None where it does not answer."""
        if self._cluster is None:
            return None
        try:
            answer = takes_cdi(self._cluster.read_node_info())
        except ClusterUnavailable as error:
            log.warning("the API server does not tell this node's versions (%s): asking again", error)
            return None
        self._state_file.write((Inject.CDI if answer else Inject.MOUNTS) + "\n")
        return answer

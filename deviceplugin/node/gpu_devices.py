"""Where the devices of this node's GPUs come from now, for every part that asks.

The module owns the state file with the CDI source that the node had last.  With it a node whose specs are gone after a
reboot or an upgrade is refused instead of being taken for one that never had any.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from contract.sharing.inventory import Inventory
from contract.words.node import DevicesFrom
from deviceplugin.core.events import DevicesFound, DevicesRefused, Tell
from deviceplugin.core.gpu_devices import Card, FoundSpecs, GpuDevices, Question, find_gpu_devices
from deviceplugin.node.cdi_folders import CdiFolders
from deviceplugin.node.state_file import StateFile

STATE_FILE = "devices"
_FROM_CDI = (DevicesFrom.NVIDIA_CDI, DevicesFrom.MANAGEMENT_CDI)


def cards_of(inventory: Inventory) -> tuple[Card, ...]:
    """Return the shared GPUs as cards."""
    return tuple(Card(shared.gpu.uuid, shared.gpu.minor) for shared in inventory.shared)


def read_used_before(root: Path) -> DevicesFrom | None:
    """Return the CDI source that a node had last."""
    text = StateFile(root / STATE_FILE).read().strip()
    return DevicesFrom(text) if text in _FROM_CDI else None


class DeviceFinder:
    """Ask `now()`; it reads the folders each time, and decides again only where something has changed."""

    def __init__(
        self,
        folders: CdiFolders,
        root: Path,
        *,
        wanted: DevicesFrom | None,
        inventory: Callable[[], Inventory],
        takes_cdi: Callable[[], bool],
        why_unread: Callable[[], str],
        tell: Tell,
    ) -> None:
        self._folders, self._wanted, self._tell = folders, wanted, tell
        self._inventory, self._takes_cdi, self._why_unread = inventory, takes_cdi, why_unread
        self._root, self._state_file = root, StateFile(root / STATE_FILE)
        self._lock = threading.Lock()
        self._decided: tuple[FoundSpecs, Question] | None = None
        self._devices: GpuDevices | None = None

    def now(self) -> GpuDevices:
        """Return where devices come from at this moment."""
        found = self._folders.read()
        with self._lock:
            asked = self._ask(found)
            if self._devices is None or (found, asked) != self._decided:
                self._decide(found, asked)
            assert self._devices is not None
            return self._devices

    def _ask(self, found: FoundSpecs) -> Question:
        cards, takes_cdi = cards_of(self._inventory()), self._takes_cdi()
        why_unread = "" if takes_cdi and found.specs else self._why_unread()
        return Question(cards, self._wanted, self._used_before(), takes_cdi, why_unread)

    def _decide(self, found: FoundSpecs, asked: Question) -> None:
        devices = find_gpu_devices(found, asked)
        self._remember(devices.source, len(asked.cards))
        self._decided = (found, replace(asked, used_before=self._used_before()))
        is_news = self._devices is None or devices.sentence() != self._devices.sentence()
        self._devices = devices
        if is_news:
            self._tell(DevicesFound(devices.source, devices.sentence()))
            if devices.is_trouble:
                self._tell(DevicesRefused(devices.sentence()))

    def _used_before(self) -> DevicesFrom | None:
        return read_used_before(self._root)

    def _remember(self, source: DevicesFrom, cards: int) -> None:
        """Keep a CDI source that some card has; forget it where the operator asks for the environment."""
        if source in _FROM_CDI and cards:
            self._state_file.write(f"{source}\n")
        elif self._wanted is DevicesFrom.ENVIRONMENT:
            self._state_file.write("")

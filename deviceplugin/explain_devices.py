"""`nvshare-device-plugin explain --devices`: where containers' device nodes and driver files come from, and why.

The module owns its lines.  It asks the folders and, unless the caller names the cards, NVML; it writes nothing.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from adapters.driver_files import find_mounted_node
from adapters.options import Kind, read_text, whole
from deviceplugin.core.gpu_devices import Card, GpuDevices, Question, find_gpu_devices
from deviceplugin.doctor.runtime import why_unread
from deviceplugin.errors import BadSetting, NoDevices
from deviceplugin.gpus.cards import Nvml
from deviceplugin.node import cdi_support
from deviceplugin.node.cdi_folders import CdiFolders
from deviceplugin.node.gpu_devices import read_used_before
from deviceplugin.node.state_file import StateFile
from deviceplugin.settings import DEVICES, Inject

_MINOR = whole(0, 253)


def tell_devices(given: argparse.Namespace) -> Iterator[str]:
    """Yield where devices come from on the node with these folders, and what each card's containers would get."""
    wanted = _read(DEVICES, given.devices, "--devices")
    cards = _read_cards(given.card) if given.card else _cards_now()
    folders = CdiFolders(Path(given.static_cdi_folder), Path(given.cdi_folder))
    root = Path(given.node_root)
    takes_cdi = StateFile(root / cdi_support.STATE_FILE).read().strip() != Inject.MOUNTS
    asked = Question(cards, wanted, read_used_before(root), takes_cdi, why_unread(find_mounted_node()))
    found = find_gpu_devices(folders.read(), asked)
    yield found.sentence()
    for card in cards:
        number = "unknown" if card.minor is None else f"/dev/nvidia{card.minor}"
        yield f"{card.uuid} ({number}): {_tell_edits(found, card.uuid)}"


def _tell_edits(found: GpuDevices, uuid: str) -> str:
    try:
        edits = found.edits_of([uuid])
    except NoDevices as error:
        return f"its containers wait. {error}"
    names = " ".join(str(node["path"]) for node in edits.nodes) or "no device nodes"
    return f"{names}; {len(edits.mounts)} mounts, {len(edits.hooks)} hooks, {' '.join(edits.env)}"


def _read_cards(entries: Sequence[str]) -> tuple[Card, ...]:
    return tuple(_read_card(entry) for entry in entries)


def _read_card(entry: str) -> Card:
    uuid, equals, number = entry.partition("=")
    if not equals or not uuid:
        raise BadSetting(f"--card {entry!r} is not UUID=N. Write it as in GPU-1b2c=0.")
    return Card(uuid, _read(_MINOR, number, "--card"))


def _read(kind: Kind, text: str, flag: str) -> Any:
    return read_text(kind, text, way=flag, error=BadSetting)


def _cards_now() -> tuple[Card, ...]:
    """Ask NVML; raise `NvmlUnavailable`."""
    library = Nvml()
    try:
        return tuple(Card(gpu.uuid, gpu.minor) for gpu in library.rescan() if not gpu.mig)
    finally:
        library.close()

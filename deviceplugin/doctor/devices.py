"""Gather NVIDIA's CDI specs on this node, and where devices would come from: by the rule that the plugin follows."""

from collections.abc import Sequence
from pathlib import Path

from contract.sharing.inventory import Gpu
from deviceplugin.core.doctor.facts import CdiFacts
from deviceplugin.core.gpu_devices import Question, find_gpu_devices
from deviceplugin.core.inventory import take_stock
from deviceplugin.doctor.cluster import NodeAnswer
from deviceplugin.doctor.runtime import why_unread
from deviceplugin.node import cdi_support, gpu_devices
from deviceplugin.node.cdi_folders import CdiFolders
from deviceplugin.node.state_file import StateFile
from deviceplugin.settings import Inject, Settings


def look_at_cdi(settings: Settings, gpus: Sequence[Gpu], answer: NodeAnswer, node_root: Path | None) -> CdiFacts:
    """Return the specs of both folders, and what they are good for; nothing is written."""
    folders = (settings.static_cdi_folder, settings.layout.cdi)
    found = CdiFolders(*folders).read()
    asked = Question(
        gpu_devices.cards_of(take_stock(gpus, settings.rules)),
        settings.devices,
        gpu_devices.read_used_before(settings.layout.root),
        _uses_cdi(settings, answer),
        why_unread(node_root),
    )
    devices = find_gpu_devices(found, asked)
    return CdiFacts(
        folders={str(folder): folder.is_dir() for folder in folders},
        specs={spec.file: (spec.kind, tuple(spec.devices)) for spec in found.specs},
        malformed={each.file: each.why for each in found.malformed},
        source=devices.source.value,
        told=devices.sentence(),
        is_trouble=devices.is_trouble,
    )


def _uses_cdi(settings: Settings, answer: NodeAnswer) -> bool:
    """Return whether CDI is used; where nobody knows, as on a node before its first start, take it that it is."""
    if settings.inject is not Inject.AUTO:
        return settings.inject is Inject.CDI
    if answer.runtime:
        return answer.takes_cdi
    return StateFile(settings.layout.root / cdi_support.STATE_FILE).read().strip() != Inject.MOUNTS

"""Gather what NVML says, and which device nodes there are."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from adapters import driver_files
from adapters.driver_files import NodeState
from deviceplugin.core.doctor.facts import DeviceNode, NvmlFacts
from deviceplugin.errors import NvmlUnavailable
from deviceplugin.gpus.cards import Nvml

_STATES: Mapping[NodeState, DeviceNode] = {
    NodeState.USABLE: DeviceNode.THERE,
    NodeState.IDLE: DeviceNode.THERE,
    NodeState.FORBIDDEN: DeviceNode.THERE,  # it is there for containers; NVML's own sentence says what it is for us
    NodeState.ABSENT: DeviceNode.ABSENT,
    NodeState.OTHER: DeviceNode.OTHER,
}


def ask_nvml(driver_root: Path | None) -> NvmlFacts:
    """Open the library once, and close it again."""
    library = Nvml(driver_root)
    try:
        gpus = library.rescan()
    except NvmlUnavailable as error:
        return NvmlFacts(answers=False, told=str(error))
    facts = NvmlFacts(answers=True, told=library.tell(), gpus=tuple(gpus), compute_modes=library.compute_modes())
    library.close()
    return facts


def look_at_nodes(names: Iterable[str], root: Path) -> dict[str, DeviceNode]:
    """Return how the device nodes of these names are below a root."""
    return {name: _STATES[driver_files.look_at_node(name, root / "dev")] for name in names}

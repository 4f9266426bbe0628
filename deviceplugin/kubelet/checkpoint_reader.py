"""Read from the kubelet's checkpoint which pod has a set of slots, and which CDI devices it was told for them.

The module owns the reading of our own answers, which the kubelet keeps there.  They are what a lost record is made
from.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from adapters.kubelet.device_plugin_api import messages
from deviceplugin.core import cdi
from deviceplugin.core.checkpoint import find_owner
from deviceplugin.node.bindings import Told


def ask_checkpoint(path: Path, resource: str) -> Callable[[Sequence[str]], Told | None]:
    """Return the question; it answers None where the checkpoint cannot be read or does not have the slots."""

    def ask(device_ids: Sequence[str]) -> Told | None:
        try:
            owner = find_owner(path.read_text(), resource, device_ids)
        except (OSError, UnicodeDecodeError):
            return None
        return None if owner is None else Told(owner.pod, names_told(owner.answers))

    return ask


def names_told(answers: Iterable[bytes]) -> tuple[str, ...]:
    """Return the names of our CDI devices in these answers; an answer of another form has none."""
    names: dict[str, None] = {}
    for answer in answers:
        try:
            told = messages.ContainerAllocateResponse.FromString(answer).cdi_devices
        except DecodeError:
            continue
        names |= dict.fromkeys(device.name.partition("=")[2] for device in told if cdi.is_ours(device.name))
    return tuple(names)

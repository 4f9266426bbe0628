"""What a CDI spec of another maker says: its devices, and the edits of each, as frozen values.

The module owns how such a spec is read and how edits are joined.  Single edits (a mount, a hook, a device node) are
copied as they stand.  A spec with a version or a kind of edit that this module does not know is refused: half of a
driver is worse than none.  Pure.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deviceplugin.errors import BadSpec

Json = dict[str, Any]
VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""The versions of CDI that we know, oldest first."""
_NVIDIA_MAJOR = 195
"""The kernel's number for /dev/nvidia<n>; the driver's own list of devices says so."""
_CARD_NODE = re.compile(r"(?:.*/)?nvidia([0-9]+)", re.ASCII)
_MIG_NODE = re.compile(r".*/nvidia-caps/nvidia-cap[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeviceEdits:
    """What a runtime changes in a container."""

    env: tuple[str, ...] = ()
    nodes: tuple[Json, ...] = ()
    mounts: tuple[Json, ...] = ()
    hooks: tuple[Json, ...] = ()
    gids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignSpec:
    """One CDI spec that somebody else wrote."""

    file: str
    version: str
    kind: str
    common: DeviceEdits = field(default_factory=DeviceEdits)
    """Edits for every container that gets one of its devices."""
    devices: Mapping[str, DeviceEdits] = field(default_factory=dict)
    priority: int = 0
    """The place of its folder: of two specs, a runtime takes the one in the later folder."""


_LISTS: Mapping[str, tuple[str, type]] = {
    "env": ("env", str),
    "deviceNodes": ("nodes", dict),
    "mounts": ("mounts", dict),
    "hooks": ("hooks", dict),
    "additionalGids": ("gids", int),
}
"""The edits that we copy: the word in a spec, our field, the type of each item."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "deviceNodes": ("path",),
    "mounts": ("hostPath", "containerPath"),
    "hooks": ("hookName", "path"),
}


def read_spec(file: str, document: object, priority: int = 0) -> ForeignSpec:
    """Return the spec that a file holds; raise `BadSpec` where a runtime would refuse it, or we do not know a part."""
    spec = _mapping(document, "the file")
    version, kind = spec.get("cdiVersion"), spec.get("kind")
    if version not in VERSIONS:
        raise BadSpec(f"its cdiVersion is {version!r}, and this plugin knows {VERSIONS[0]} to {VERSIONS[-1]}")
    if not isinstance(kind, str) or "/" not in kind:
        raise BadSpec(f"its kind is {kind!r}, and must be like vendor.com/class")
    listed = spec.get("devices")
    if not isinstance(listed, list):
        raise BadSpec("it has no list of devices")
    devices: dict[str, DeviceEdits] = {}
    for entry in listed:
        device = _mapping(entry, "a device")
        name = device.get("name")
        if not isinstance(name, str) or not name:
            raise BadSpec(f"a device is named {name!r}, which is no text")
        if name in devices:
            raise BadSpec(f"it names the device {name!r} twice")
        devices[name] = _read_edits(device.get("containerEdits"), f"device {name!r}")
    return ForeignSpec(file, version, kind, _read_edits(spec.get("containerEdits"), "the spec"), devices, priority)


def _mapping(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise BadSpec(f"{what} is not a mapping of names to values")
    return value


def _read_edits(value: object, what: str) -> DeviceEdits:
    if value is None:
        return DeviceEdits()
    fields: dict[str, tuple[Any, ...]] = {}
    for word, items in _mapping(value, f"containerEdits of {what}").items():
        if word not in _LISTS:
            raise BadSpec(f"containerEdits of {what} has {word!r}, which this plugin does not know")
        name, kind = _LISTS[word]
        if items is not None:
            fields[name] = tuple(_read_item(item, kind, word, what) for item in _list(items, word, what))
    return DeviceEdits(**fields)


def _list(items: object, word: str, what: str) -> list[Any]:
    if not isinstance(items, list):
        raise BadSpec(f"{word} of {what} is not a list")
    return items


def _read_item(item: Any, kind: type, word: str, what: str) -> Any:
    is_good = isinstance(item, kind) and not isinstance(item, bool)
    if word == "env":
        is_good = is_good and item.find("=") > 0
    if not is_good or not all(isinstance(item.get(key), str) and item[key] for key in _NEEDED.get(word, ())):
        raise BadSpec(f"{word} of {what} has an entry that is not complete: {item!r:.120}")
    return item


def join_edits(parts: Iterable[DeviceEdits]) -> DeviceEdits:
    """Return all edits together, each one once.

    Of two variables with one name, nodes with one path or mounts at one place, the last one wins, as it does in a
    runtime.
    """
    every = list(parts)
    return DeviceEdits(
        env=_once((entry for part in every for entry in part.env), lambda entry: entry.partition("=")[0]),
        nodes=_once((node for part in every for node in part.nodes), lambda node: node["path"]),
        mounts=_once((mount for part in every for mount in part.mounts), lambda mount: mount["containerPath"]),
        hooks=_once((hook for part in every for hook in part.hooks), repr),
        gids=_once((gid for part in every for gid in part.gids), lambda gid: gid),
    )


def _once(items: Iterable[Any], key_of: Callable[[Any], Any]) -> tuple[Any, ...]:
    found: dict[Any, Any] = {}
    for item in items:
        found[key_of(item)] = item
    return tuple(found.values())


def write_edits(edits: DeviceEdits) -> Json:
    """Return the edits in the form of a CDI spec, without the empty ones."""
    return {word: list(items) for word, (name, _) in _LISTS.items() if (items := getattr(edits, name))}


def newest(versions: Iterable[str]) -> str:
    """Return the newest of these versions."""
    return max(versions, key=VERSIONS.index)


def card_of(node: Json) -> int | None:
    """Return the number of the card behind a device node, or None for a node of another kind.

    The numbers in the entry count for more than the names: with them a runtime does not look at the file.
    """
    if node.get("major") == _NVIDIA_MAJOR and _is_number(node.get("minor")):
        minor = int(node["minor"])
        return minor if minor < _FIRST_CONTROL_MINOR else None
    match = _CARD_NODE.fullmatch(str(node.get("hostPath") or node["path"]))
    return int(match.group(1)) if match else None


_FIRST_CONTROL_MINOR = 254
"""195:254 is nvidia-modeset, and 195:255 is nvidiactl."""


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def cards_in(edits: DeviceEdits) -> frozenset[int]:
    """Return the numbers of all cards whose nodes these edits bring."""
    return frozenset(card for node in edits.nodes if (card := card_of(node)) is not None)


def has_mig_nodes(edits: DeviceEdits) -> bool:
    """Return whether these edits bring a MIG instance's nodes."""
    return any(_MIG_NODE.fullmatch(str(node.get("hostPath") or node["path"])) for node in edits.nodes)

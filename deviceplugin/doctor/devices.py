"""Gather NVIDIA's CDI specs on this node, and where devices would come from."""

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from deviceplugin.core.doctor.facts import CdiFacts
from deviceplugin.settings import Settings

_KINDS = ("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu", "management.nvidia.com/gpu")
_STATIC = "/etc/cdi"


def look_at_cdi(settings: Settings) -> CdiFacts:
    """Return the specs of both folders; no spec is written or changed."""
    folders = [Path(_STATIC), settings.layout.cdi]
    specs: dict[str, tuple[str, tuple[str, ...]]] = {}
    malformed: dict[str, str] = {}
    for file in (file for folder in folders for file in _files(folder)):
        try:
            kind, devices = _read(file)
        except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
            malformed[str(file)] = " ".join(str(error).split())
            continue
        if kind in _KINDS:
            specs[str(file)] = (kind, devices)
    return CdiFacts(
        folders={str(folder): folder.is_dir() for folder in folders},
        specs=specs,
        malformed=malformed,
        source="environment",
        why="NVIDIA's runtime must read the environment.",
        is_trouble=False,
    )


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.suffix in (".json", ".yaml") and "nvidia" in path.name:
                yield path


def _read(file: Path) -> tuple[str, tuple[str, ...]]:
    text = file.read_text()
    spec = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    return str(spec["kind"]), tuple(str(device["name"]) for device in spec["devices"])

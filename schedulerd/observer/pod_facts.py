"""Which container has an allocation: by device ids in the kubelet's list; and what the API says of its pod.

Pure functions.  A pod is the raw JSON of the API; only the fields that we read are kept.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from adapters.kubelet.pod_resources import ContainerDevices
from contract.errors import BadValue
from contract.wire.control import PodFacts
from contract.words import names
from contract.words.grammar import POD_ANNOTATIONS, AllocationKind, Mode, Word, read_word

log = logging.getLogger(__name__)

Pod = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Owner:
    """A container, by the kubelet."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class PodSummary:
    """What is kept of a pod."""

    uid: str
    annotations: Mapping[str, str]
    modes: Mapping[str, str]
    """NVSHARE_MODE of its containers, which only the webhook can set."""
    priority: int | None


def owners(listing: Iterable[ContainerDevices]) -> dict[frozenset[str], Owner]:
    """Return who has which vGPU device ids, by the kubelet's list."""
    return {
        frozenset(ids): Owner(each.namespace, each.pod, each.container)
        for each in listing
        if (ids := each.ids_of(names.RESOURCE))
    }


def summarise(pod: Pod) -> PodSummary:
    """Return what we keep of a pod's JSON.

    A static pod's UID is the one that its processes' control groups show, not that of its copy in the API.
    """
    spec, metadata = pod.get("spec", {}), pod.get("metadata", {})
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    annotations = metadata.get("annotations") or {}
    return PodSummary(
        uid=annotations.get(names.CONFIG_MIRROR) or metadata.get("uid", ""),
        annotations={key: text for key, text in annotations.items() if key.startswith(names.DOMAIN + "/")},
        modes={one["name"]: mode for one in containers if (mode := _mode_of(one))},
        priority=spec.get("priority"),
    )


def _mode_of(container: Mapping[str, Any]) -> str:
    entries = (one for one in container.get("env") or () if one.get("name") == names.ENV_MODE)
    return next((one.get("value") or "" for one in entries), "")


def facts(owner: Owner, pod: PodSummary | None) -> PodFacts:
    """Return what the scheduler should know of a container; without a pod, its name alone."""
    if pod is None:
        return PodFacts(namespace=owner.namespace, pod=owner.pod, container=owner.container)
    said = {word.key: value for word in POD_ANNOTATIONS if (value := _read(word, pod, owner)) is not None}
    mode = pod.modes.get(owner.container)
    return PodFacts(
        uid=pod.uid,
        namespace=owner.namespace,
        pod=owner.pod,
        container=owner.container,
        mode=Mode(mode) if mode in tuple(Mode) else _as(Mode, said.get(names.MULTI_GPU)),
        weight=_as(int, said.get(names.WEIGHT)),
        priority=pod.priority,
        quantum_ms=_as(int, said.get(names.QUANTUM)),
        memory=_as(int, said.get(names.MEMORY)),
        allocation=_as(AllocationKind, said.get(names.ALLOCATION)),
    )


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None


def _read(word: Word, pod: PodSummary, owner: Owner) -> object:
    text = pod.annotations.get(word.key)
    if text is None:
        return None
    try:
        return read_word(word, text)
    except BadValue as error:
        log.warning(
            "%s/%s was not checked by the webhook: %s; this value is ignored", owner.namespace, owner.pod, error
        )
        return None

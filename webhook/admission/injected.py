"""What the webhook writes into a pod, as values: environment entries, volumes, mounts, the node expression.

Rules let exactly these pass, steps write exactly these: "ours" is recognised by content, never by an annotation.
"""

import re

from contract import names, paths
from contract.grammar import Mode, OnLoss
from webhook.admission.json_fields import Json
from webhook.admission.pod import STEERING_PREFIX, Container

SHADOWED: dict[str, str] = {
    "LD_AUDIT": "",
    "GLIBC_TUNABLES": "",
    names.ENV_ON_LOSS: OnLoss.WAIT.value,
    names.ENV_SOCKETS: paths.CONTAINER_SOCKETS,
}
"""Entries written in front of an `envFrom`, which could bring these names.  The visible devices are not among them: by
CDI the allocation's own win anyway, and without it the pod's win over the allocation's, and the program sees none."""
HIDDEN = "void"
"""The visible devices of a container that asked for none."""
LET_PASS = {**SHADOWED, names.ENV_VISIBLE_DEVICES: HIDDEN}
"""What an earlier release wrote stands in files that `inject` completed."""
GUARDED_NAMES = (names.ENV_VISIBLE_DEVICES, "LD_AUDIT", "GLIBC_TUNABLES")
GUARDED_PREFIX = STEERING_PREFIX
_SEPARATORS = re.compile(r"[: ]+")

VOLUMES: tuple[Json, ...] = (
    {"name": names.HOOK_VOLUME, "hostPath": {"path": paths.NODE_HOOK_FOLDER, "type": "Directory"}},
    {"name": names.SOCKETS_VOLUME, "hostPath": {"path": paths.NODE_SOCKETS, "type": "Directory"}},
)
MOUNTS: tuple[Json, ...] = (
    {"name": names.HOOK_VOLUME, "mountPath": paths.CONTAINER_HOOK_FOLDER, "readOnly": True},
    {"name": names.SOCKETS_VOLUME, "mountPath": paths.CONTAINER_SOCKETS, "readOnly": True},
)
OUR_VOLUMES = (names.HOOK_VOLUME, names.SOCKETS_VOLUME)


def is_guarded(name: str) -> bool:
    """A variable that steers the hook, the loader or the runtime, and so is not the user's to set."""
    return name in GUARDED_NAMES or (name.startswith(GUARDED_PREFIX) and name != names.ENV_LOG)


def our_value(name: str, container: Container, mode: Mode) -> str | None:
    """What the webhook itself writes, or once wrote, for a guarded name in this container; None where nothing."""
    if name == names.ENV_MODE:
        return mode.value
    return LET_PASS.get(name) if container.has_env_from else None


def is_our_volume(volume: Json) -> bool:
    """Exactly one of ours, whoever wrote it."""
    return volume in VOLUMES


def is_our_mount(mount: Json) -> bool:
    """Exactly one of ours, whoever wrote it."""
    return mount in MOUNTS


def preload_with_hook(text: str) -> str:
    """The user's LD_PRELOAD with our hook in front, once."""
    if text == paths.CONTAINER_HOOK or (
        text.startswith(paths.CONTAINER_HOOK + ":") and text.count(paths.CONTAINER_HOOK) == 1
    ):
        return text
    others = [part for part in _SEPARATORS.split(text) if part and part != paths.CONTAINER_HOOK]
    return ":".join((paths.CONTAINER_HOOK, *others))

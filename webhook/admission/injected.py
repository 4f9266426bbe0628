"""The values that the webhook writes into a pod: environment entries, volumes and mounts.

The rule it owns: the steps write exactly these values, and the rules let exactly these pass.  An entry is ours by its
content, never by an annotation.
"""

import re

from contract.words import names, paths
from contract.words.grammar import Mode, OnLoss
from webhook.admission.json_fields import Json
from webhook.admission.pod import STEERING_PREFIX, Container

SHADOWED: dict[str, str] = {
    "LD_AUDIT": "",
    "GLIBC_TUNABLES": "",
    names.ENV_ON_LOSS: OnLoss.WAIT.value,
    names.ENV_SOCKETS: paths.CONTAINER_SOCKETS,
}
"""The entries written in front of an `envFrom`, which could bring these names.

The visible devices are not among them.  With CDI the allocation's own value wins anyway.  Without CDI the pod's value
wins over the allocation's, and the program would see no GPU."""
HIDDEN = "void"
"""The visible devices of a container that asked for no GPU."""
LET_PASS = {**SHADOWED, names.ENV_VISIBLE_DEVICES: HIDDEN}
"""The values that may stand in a pod.  An earlier release wrote the last one; files that `inject` completed hold it."""
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
    """Tell whether a variable steers the hook, the loader or the runtime: a user may not set such a variable."""
    return name in GUARDED_NAMES or (name.startswith(GUARDED_PREFIX) and name != names.ENV_LOG)


def our_value(name: str, container: Container, mode: Mode) -> str | None:
    """Return the value that the webhook writes, or once wrote, for a guarded name in this container, or None."""
    if name == names.ENV_MODE:
        return mode.value
    return LET_PASS.get(name) if container.has_env_from else None


def is_our_volume(volume: Json) -> bool:
    """Tell whether the volume equals one of ours, whoever wrote it."""
    return volume in VOLUMES


def is_our_mount(mount: Json) -> bool:
    """Tell whether the mount equals one of ours, whoever wrote it."""
    return mount in MOUNTS


def preload_with_hook(text: str) -> str:
    """Return the user's LD_PRELOAD with our hook in front, once."""
    if text == paths.CONTAINER_HOOK or (
        text.startswith(paths.CONTAINER_HOOK + ":") and text.count(paths.CONTAINER_HOOK) == 1
    ):
        return text
    others = [part for part in _SEPARATORS.split(text) if part and part != paths.CONTAINER_HOOK]
    return ":".join((paths.CONTAINER_HOOK, *others))

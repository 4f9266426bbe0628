"""Folders of the node that a pod may not reach, and folders of a container that are ours.

Paths are compared as they will resolve.  May import the contract, `path`, `words` and `rule`.
"""

from contract import names, paths
from contract.grammar import Exemption
from contract.reasons import ReasonCode
from webhook.fields import Json, read_map, read_text
from webhook.path import climbs_too_often, is_within, resolve, touches
from webhook.pod import Container
from webhook.rule import Facts, Offenders, Rule, Scope
from webhook.words import OUR_VOLUMES, is_our_mount, is_our_volume

OUR_FOLDERS = (paths.CONTAINER_HOOK_FOLDER, paths.CONTAINER_SOCKETS)
_OURS = tuple(resolve(folder) for folder in OUR_FOLDERS)
_GUARDED = tuple(resolve(folder) for folder in paths.GUARDED_FOLDERS)
_UNGUARDED = tuple(resolve(folder) for folder in paths.UNGUARDED_FOLDERS)


def is_guarded_host_path(text: str) -> bool:
    """A path on the node that is, holds or lies above a guarded folder."""
    path = resolve(text)
    if any(is_within(path, folder) for folder in _UNGUARDED):
        return False
    return climbs_too_often(text) or any(touches(path, folder) for folder in _GUARDED)


def _guarded_host_paths(facts: Facts) -> Offenders:
    if facts.namespace.allows(Exemption.HOST_PATH):
        return ()
    return tuple(
        f"volume '{read_text(volume, 'name')}' with '{_host_path(volume)}'"
        for volume in facts.pod.volumes
        if volume.get("hostPath") and is_guarded_host_path(_host_path(volume)) and not is_our_volume(volume)
    )


def _host_path(volume: Json) -> str:
    return read_text(read_map(volume, "hostPath"), "path")


def _taken_names(facts: Facts) -> Offenders:
    return tuple(
        f"'{volume['name']}'"
        for volume in facts.pod.volumes
        if volume.get("name") in OUR_VOLUMES and not is_our_volume(volume)
    )


def _in_the_way(facts: Facts) -> Offenders:
    return tuple(
        f"'{mount.get('mountPath')}' (volume '{mount.get('name')}') in container '{container.name}'"
        for container in facts.pod.containers
        for mount in container.mounts
        if _is_in_the_way(container, mount)
    )


def _is_in_the_way(container: Container, mount: Json) -> bool:
    """Our volume mounted in another way than ours; or, where the hook goes, a mount on, above or below our folders."""
    if mount.get("name") in OUR_VOLUMES:
        return not is_our_mount(mount)
    return bool(container.vgpus) and touches_our_folders(mount.get("mountPath") or "")


def touches_our_folders(text: str) -> bool:
    """A mountPath that will resolve to a folder of ours, one in it, or a parent of it."""
    path = resolve(text)
    return climbs_too_often(text) or any(touches(path, folder) for folder in _OURS)


def _our_volumes_elsewhere(containers: tuple[Container, ...]) -> Offenders:
    return tuple(
        f"'{mount['name']}' in container '{container.name}'"
        for container in containers
        for mount in container.mounts
        if mount.get("name") in OUR_VOLUMES
    )


_GRANT = f"or ask an administrator to add host-path to the Namespace's annotation {names.ALLOW}."
RULES: tuple[Rule, ...] = (
    Rule(
        code=ReasonCode("GuardedHostPath"),
        cause="A hostPath volume reaches a folder of the node that is guarded where GPUs are shared: {found}.",
        remedy="Mount a folder that is not, does not hold and is not within "
        + ", ".join(paths.GUARDED_FOLDERS)
        + f" (of /dev, {' and '.join(paths.UNGUARDED_FOLDERS)} may be mounted), {_GRANT}",
        scope=Scope.ANY_POD,
        find=_guarded_host_paths,
    ),
    Rule(
        code=ReasonCode("VolumeNameTaken"),
        cause="The pod has a volume with a name that the system gives to its own: {found}.",
        remedy="Give that volume another name, in spec.volumes and in the mounts that use it.",
        find=_taken_names,
    ),
    Rule(
        code=ReasonCode("MountInTheWay"),
        cause="A mount lies on, above or below a folder where the hook or its socket is mounted: {found}.",
        remedy=f"Choose a mountPath that is not within {' or '.join(OUR_FOLDERS)} and is not a parent of them.",
        find=_in_the_way,
    ),
    Rule(
        code=ReasonCode("DebugContainerMount"),
        cause="A debug container may not mount the volumes of the system: {found}.",
        remedy="Remove that volumeMount from the debug container.",
        scope=Scope.EPHEMERAL,
        find=lambda facts: _our_volumes_elsewhere(facts.new_ephemeral),
    ),
)

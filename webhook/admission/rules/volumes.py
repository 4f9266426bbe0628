"""Rules on paths: folders of the node that a pod may not reach, and folders of a container that are ours.

The rule it owns: paths are compared in their resolved form.
"""

from collections.abc import Callable

from contract.words import names, paths
from contract.words.grammar import Exemption
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.host_paths import climbs_too_often, is_within, passes_proc, resolve, touches
from webhook.admission.injected import MOUNTS, OUR_VOLUMES, VOLUMES, is_our_mount, is_our_volume
from webhook.admission.json_fields import Json, read_map, read_text
from webhook.admission.pod import Container
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope

OUR_FOLDERS = (paths.CONTAINER_HOOK_FOLDER, paths.CONTAINER_SOCKETS)
_OURS = tuple(resolve(folder) for folder in OUR_FOLDERS)
_PRELOAD_FILE = resolve(paths.CONTAINER_PRELOAD_FILE)
"""The file that names the hook to the loader.  A mount over a parent folder lies below the mount of the allocation, so
only a mount on the file itself is refused."""
_GUARDED = tuple(resolve(folder) for folder in paths.GUARDED_FOLDERS)
_UNGUARDED = tuple(resolve(folder) for folder in paths.UNGUARDED_FOLDERS)


def is_guarded_host_path(text: str) -> bool:
    """Tell whether a path on the node is a guarded folder, lies in one, or holds one."""
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


def touches_our_folders(text: str) -> bool:
    """Tell whether a path resolves to a folder of ours, into one, to a parent of one, or to the file of the loader."""
    path = resolve(text)
    return climbs_too_often(text) or is_within(path, _PRELOAD_FILE) or any(touches(path, folder) for folder in _OURS)


def _in_the_way(facts: Facts) -> Offenders:
    mounts = _mounts(facts.sharing, lambda mount: touches_our_folders(mount.get("mountPath") or ""))
    files = [
        f"terminationMessagePath '{item.termination_message_path}' in container '{item.name}'"
        for item in facts.sharing
        if item.termination_message_path and touches_our_folders(item.termination_message_path)
    ]
    return (*mounts, *files)


def _mounts(containers: tuple[Container, ...], is_bad: Callable[[Json], bool], *, ours: bool = False) -> Offenders:
    """Find the bad mounts of each container: among the mounts of our volumes, or among all others."""
    found = []
    for container in containers:
        bad = [
            f"'{mount.get('mountPath')}' of volume '{mount.get('name')}'"
            for mount in container.mounts
            if (mount.get("name") in OUR_VOLUMES) is ours and is_bad(mount)
        ]
        if bad:
            found.append(f"{' and '.join(bad)} in container '{container.name}'")
    return tuple(found)


def _in_proc(facts: Facts) -> Offenders:
    return _paths_in_proc(facts.pod.containers)


def _debug_in_proc(facts: Facts) -> Offenders:
    return _paths_in_proc(facts.new_ephemeral)


def _paths_in_proc(containers: tuple[Container, ...]) -> Offenders:
    """Find the paths of each container that lead through `/proc`: mounts, devices and termination messages."""
    found = []
    for item in containers:
        mounts = [f"mountPath '{path}'" for path in _each(item.mounts, "mountPath") if passes_proc(path)]
        devices = [f"devicePath '{path}'" for path in _each(item.devices, "devicePath") if passes_proc(path)]
        file = (
            [f"terminationMessagePath '{item.termination_message_path}'"]
            if passes_proc(item.termination_message_path)
            else []
        )
        if bad := mounts + devices + file:
            found.append(f"{' and '.join(bad)} in container '{item.name}'")
    return tuple(found)


def _each(items: list[Json], key: str) -> list[str]:
    return [item.get(key) or "" for item in items]


def _misused_volumes(facts: Facts) -> Offenders:
    return _mounts(facts.pod.containers, lambda mount: not is_our_mount(mount), ours=True)


def _debug_mounts(facts: Facts) -> Offenders:
    return _mounts(facts.new_ephemeral, lambda _: True, ours=True)


# The same in CEL.  A pod may have 20,000 mounts, and the API server counts each step.  So a cheap test comes first,
# which lets innocent paths pass; only suspect paths are resolved.
_IS_OUR_VOLUME = (
    "("
    + " || ".join(
        f"(v.name == {cel.text(item['name'])} && v.hostPath.path == {cel.text(item['hostPath']['path'])}"
        f" && v.hostPath.?type.orValue('') == {cel.text(item['hostPath']['type'])})"
        for item in VOLUMES
    )
    + ")"
)
_IS_OUR_MOUNT = (
    "("
    + " || ".join(
        f"(m.name == {cel.text(item['name'])} && m.mountPath == {cel.text(item['mountPath'])})" for item in MOUNTS
    )
    + ") && m.?readOnly.orValue(false) && !("
    + " || ".join(f"has(m.{name})" for name in ("subPath", "subPathExpr", "mountPropagation", "recursiveReadOnly"))
    + ")"
)
_NAMED_OURS = f"m.name in {cel.texts(OUR_VOLUMES)}"
_SUSPECT = "(size({0}) < 9 || {0}.contains('nvshare') || {0}.contains('.') || {0}.contains('//') || {0}.endsWith('/'))"
"""A path that touches our folders is short, has our name in it, or has a dot (`..`, the file of the loader) or a slash
too many."""
_OUR_FOLDERS_CEL = cel.texts(folder + "/" for folder in _OURS)


def _touches_ours_cel(path: str) -> str:
    touches = cel.resolves_to_touch(path, _OUR_FOLDERS_CEL, or_into=_PRELOAD_FILE + "/")
    return f"{_SUSPECT.format(path)} && {touches}"


_MOUNT_IN_THE_WAY = f"!({_NAMED_OURS}) && {_touches_ours_cel('m.mountPath')}"
_FILES_IN_THE_WAY = (
    "variables.asking.filter(c, [c.?terminationMessagePath.orValue('')]"
    f".exists(t, t != '' && {_touches_ours_cel('t')}))"
    '.map(c, "terminationMessagePath \'" + c.terminationMessagePath + "\' in container \'" + c.name + "\'")'
)
_SHOWN = '"\'" + m.mountPath + "\' of volume \'" + m.name + "\'"'


def _mounts_cel(containers: str, condition: str) -> str:
    return (
        f"{containers}.filter(c, c.?volumeMounts.orValue([]).exists(m, {condition}))"
        f".map(c, c.volumeMounts.filter(m, {condition}).map(m, {_SHOWN}).join(' and ')"
        ' + " in container \'" + c.name + "\'")'
    )


_PLACES_CEL = (
    "{'mountPath': dyn(c.?volumeMounts.orValue([]).map(m, m.mountPath)),"
    " 'devicePath': dyn(c.?volumeDevices.orValue([]).map(m, m.devicePath)),"
    " 'terminationMessagePath': dyn([c.?terminationMessagePath.orValue('')])}"
)


def _in_proc_cel(containers: str) -> str:
    """Return `_paths_in_proc` as a CEL expression that yields the same texts."""
    fields = cel.texts(("mountPath", "devicePath", "terminationMessagePath"))
    shown = f"{_PLACES_CEL}[f].filter(t, {cel.passes_proc('t')}).map(t, f + \" '\" + t + \"'\").join(' and ')"
    found = f"{fields}.map(f, {shown}).filter(t, t != '').join(' and ')"
    return (
        f"{containers}.map(c, [string(c.name), {found}]).filter(t, t[1] != '')"
        '.map(t, t[1] + " in container \'" + t[0] + "\'")'
    )


_HOST_PATHS_CEL = (
    f"{cel.text(Exemption.HOST_PATH)} in variables.allow ? [] : variables.volumes.filter(v, has(v.hostPath)"
    f" && !{_IS_OUR_VOLUME}"
    f" && {cel.resolves_to_touch('v.hostPath.path', cel.texts(folder.rstrip('/') + '/' for folder in _GUARDED))}"
    f" && !{cel.resolved('v.hostPath.path')}"
    f".exists(r, {cel.texts(folder + '/' for folder in _UNGUARDED)}.exists(g, r.startsWith(g))))"
    '.map(v, "volume \'" + v.name + "\' with \'" + v.hostPath.path + "\'")'
)
_GRANT = f"or ask an administrator to add host-path to the Namespace's annotation {names.ALLOW}."
RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("GuardedHostPath"),
        cause="A hostPath volume reaches a folder of the node that is guarded where GPUs are shared: {found}.",
        remedy="Mount a folder that is not, does not hold and is not within "
        + ", ".join(paths.GUARDED_FOLDERS)
        + f" (of /dev, {' and '.join(paths.UNGUARDED_FOLDERS)} may be mounted), {_GRANT}",
        scope=Scope.ANY_POD,
        find=_guarded_host_paths,
        cel=_HOST_PATHS_CEL,
    ),
    Rule(
        code=ReasonCode("VolumeNameTaken"),
        cause="The pod has a volume with a name that the system gives to its own: {found}.",
        remedy="Give that volume another name, in spec.volumes and in the mounts that use it.",
        find=_taken_names,
        cel=f"variables.volumes.filter(v, v.name in {cel.texts(OUR_VOLUMES)} && !(has(v.hostPath) && {_IS_OUR_VOLUME}))"
        '.map(v, "\'" + v.name + "\'")',
    ),
    Rule(
        code=ReasonCode("SystemVolumeMounted"),
        cause="A container mounts a volume of the system in a way of its own: {found}.",
        remedy="Remove that volumeMount: the system mounts its volumes itself, where they are needed.",
        find=_misused_volumes,
        cel=_mounts_cel("variables.containers", f"{_NAMED_OURS} && !({_IS_OUR_MOUNT})"),
    ),
    Rule(
        code=ReasonCode("MountInTheWay"),
        cause="A mount, or the file of a terminationMessagePath, lies on, above or below a folder where the hook or its"
        " socket is mounted, or on the file that names the hook to the loader: {found}.",
        remedy=f"Choose a path that is not within {' or '.join(OUR_FOLDERS)}, is not a parent of them, is not"
        f" {_PRELOAD_FILE}, and has no more than four `..` in it.",
        find=_in_the_way,
        cel=f"{_mounts_cel('variables.asking', _MOUNT_IN_THE_WAY)} + {_FILES_IN_THE_WAY}",
    ),
    Rule(
        code=ReasonCode("PathInProc"),
        cause="A mountPath, devicePath or terminationMessagePath of a pod with a vGPU leads through /proc, whose links"
        " lead anywhere in the container: {found}.",
        remedy="Choose a path outside /proc, and write it without the detour.",
        find=_in_proc,
        cel=_in_proc_cel("variables.containers"),
    ),
    Rule(
        code=ReasonCode("DebugContainerPathInProc"),
        cause="A mountPath, devicePath or terminationMessagePath of a debug container on a pod with a vGPU leads"
        " through /proc, whose links lead anywhere in the container: {found}.",
        remedy="Choose a path outside /proc, and write it without the detour.",
        scope=Scope.EPHEMERAL,
        find=_debug_in_proc,
        cel=_in_proc_cel("variables.new_debug"),
    ),
    Rule(
        code=ReasonCode("DebugContainerMount"),
        cause="A debug container may not mount the volumes of the system: {found}.",
        remedy="Remove that volumeMount from the debug container.",
        scope=Scope.EPHEMERAL,
        find=_debug_mounts,
        cel=_mounts_cel("variables.new_debug", _NAMED_OURS),
    ),
)

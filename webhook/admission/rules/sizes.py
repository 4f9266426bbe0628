"""How large a pod may be where GPUs are shared, so that each rule can be decided in time.

The API server counts the steps of an expression and gives up with a message of its own, and the time of a loop in CEL
grows with the square of its rounds.  So these limits come first.  Where one is passed, no other rule looks at the pod.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.json_fields import Json, read_map, read_text
from webhook.admission.pod import Container
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope

MOST_DEBUGGERS = 100
MOST_VOLUMES = 1000
MOST_LETTERS = 32_768
_LETTERS = "characters in the paths of its volumes, mounts, devices and termination messages"


@dataclass(frozen=True)
class Total:
    """A limit over all containers: the thing that is counted, how many at most, and how many a container `c` has."""

    what: str
    most: int
    count: Callable[[Container], int]
    cel: str


TOTALS = (
    Total("environment variables", 2000, lambda item: len(item.env), "c.?env.orValue([]).size()"),
    Total(
        "mounts and devices in its containers",
        1000,
        lambda item: len(item.mounts) + len(item.devices),
        "c.?volumeMounts.orValue([]).size() + c.?volumeDevices.orValue([]).size()",
    ),
    Total(
        "limits and requests of its containers",
        1000,
        lambda item: sum(len(read_map(read_map(item.raw, "resources"), kind)) for kind in ("limits", "requests")),
        "c.?resources.?limits.orValue({}).size() + c.?resources.?requests.orValue({}).size()",
    ),
    Total(
        "added capabilities",
        1000,
        lambda item: len(item.capabilities),
        "c.?securityContext.?capabilities.?add.orValue([]).size()",
    ),
)


def _above(number: int, most: int, what: str) -> Offenders:
    return (f"{number} {what} (at most {most})",) if number > most else ()


def _too_large(facts: Facts) -> Offenders:
    pod = facts.pod
    keys = (
        *_above(len(pod.annotations) if facts.sharing else 0, cel.MOST_KEYS, "annotations"),
        *_above(len(pod.labels) if facts.sharing else 0, cel.MOST_KEYS, "labels"),
    )
    return (
        _above(len(pod.containers), cel.MOST_CONTAINERS, "containers")
        or (*_above(len(pod.volumes), MOST_VOLUMES, "volumes"), *keys, *_totals(pod.containers))
        or _above(_letters(pod.containers, pod.volumes), MOST_LETTERS, _LETTERS)
    )


def _debuggers_too_large(facts: Facts) -> Offenders:
    new = facts.new_ephemeral
    return (
        _above(len(facts.pod.ephemeral), MOST_DEBUGGERS, "debug containers")
        or _totals(new)
        or _above(_letters(new, []), MOST_LETTERS, _LETTERS)
    )


def _totals(containers: tuple[Container, ...]) -> Offenders:
    return tuple(
        text
        for total in TOTALS
        for text in _above(sum(total.count(item) for item in containers), total.most, total.what)
    )


def _letters(containers: tuple[Container, ...], volumes: list[Json]) -> int:
    return sum(len(path) for path in _paths(containers, volumes))


def _paths(containers: tuple[Container, ...], volumes: list[Json]) -> Iterator[str]:
    for item in containers:
        yield from (read_text(mount, "mountPath") for mount in item.mounts)
        yield from (read_text(device, "devicePath") for device in item.devices)
        yield item.termination_message_path
    yield from (read_text(read_map(volume, "hostPath"), "path") for volume in volumes)


# The same in CEL.
def _above_cel(number: str, most: int, what: str) -> str:
    return cel.either(f"{number} > {most}", f"string({number}) + {cel.text(f' {what} (at most {most})')}")


def _sum(containers: str, each: str) -> str:
    return f"{containers}.map(c, {each}).sum()"


def _totals_cel(containers: str) -> str:
    return " + ".join(_above_cel(_sum(containers, total.cel), total.most, total.what) for total in TOTALS)


def _letters_cel(containers: str) -> str:
    return _sum(
        containers,
        "c.?volumeMounts.orValue([]).map(m, size(m.mountPath)).sum()"
        " + c.?volumeDevices.orValue([]).map(d, size(d.devicePath)).sum()"
        " + size(c.?terminationMessagePath.orValue(''))",
    )


_HOST_LETTERS = "variables.volumes.map(v, size(v.?hostPath.?path.orValue(''))).sum()"
_KEYS_CEL = " + ".join(
    f"(variables.asking.size() > 0 ? {_above_cel(f'variables.{kind}.size()', cel.MOST_KEYS, kind)} : [])"
    for kind in ("annotations", "labels")
)
VARIABLES = {
    "too_many": " + ".join(
        (
            _above_cel("variables.volumes.size()", MOST_VOLUMES, "volumes"),
            _KEYS_CEL,
            _totals_cel("variables.containers"),
        )
    ),
    "letters": f"{_letters_cel('variables.containers')} + {_HOST_LETTERS}",
}
"""The variables of the policies; none looks into a list before its length is checked."""
DEBUG_VARIABLES = {
    "debuggers": "object.spec.?ephemeralContainers.orValue([])",
    "new_debug": f"variables.debuggers.size() > {MOST_DEBUGGERS} ? [] : variables.debuggers"
    ".filter(c, !oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name))",
    "debug_too_many": _totals_cel("variables.new_debug"),
    "debug_letters": _letters_cel("variables.new_debug"),
}


def are_few(containers: str) -> str:
    """Return the condition that the containers keep the limits counted over them, so that loops over them end."""
    totals = " && ".join(f"{_sum('cs', total.cel)} <= {total.most}" for total in TOTALS)
    return f"[{containers}].all(cs, cs.size() <= {cel.MOST_CONTAINERS} && {totals})"


def has_host_paths_or_many(spec: str) -> str:
    """Return the condition that the pod has a hostPath volume, or too many volumes to look for one."""
    volumes = f"{spec}.?volumes.orValue([])"
    return f"({volumes}.size() > {MOST_VOLUMES} || {volumes}.exists(v, has(v.hostPath)))"


def is_large(spec: str) -> str:
    """Return the condition that there are too many containers, or too large ones; it ignores volumes and keys."""
    containers = f"{spec}.?initContainers.orValue([]) + {spec}.containers"
    return f"[{containers}].exists(every, !({are_few('every')}) || {_letters_cel('every')} > {MOST_LETTERS})"


def _in_turn(first: str, then: str, last: str) -> str:
    """Return the first of three lists that is not empty; a list is computed only where it is needed."""
    return f"size({first}) > 0 ? {first} : size({then}) > 0 ? {then} : {last}"


RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("PodTooLarge"),
        cause="The pod is larger than a pod may be where GPUs are shared: it has {found}.",
        remedy="Make it smaller: fewer and shorter entries, a ConfigMap in place of many variables or mounts,"
        " or several pods.",
        scope=Scope.ANY_POD,
        find=_too_large,
        ends_the_search=True,
        cel=_in_turn(
            _above_cel("variables.containers.size()", cel.MOST_CONTAINERS, "containers"),
            "variables.too_many",
            _above_cel("variables.letters", MOST_LETTERS, _LETTERS),
        ),
    ),
    Rule(
        code=ReasonCode("DebugContainersTooLarge"),
        cause="The debug containers are more, or larger, than they may be where GPUs are shared: {found}.",
        remedy="Create the pod anew to be rid of earlier debug containers, or give the new one fewer entries.",
        scope=Scope.EPHEMERAL,
        find=_debuggers_too_large,
        ends_the_search=True,
        cel=_in_turn(
            _above_cel("variables.debuggers.size()", MOST_DEBUGGERS, "debug containers"),
            "variables.debug_too_many",
            _above_cel("variables.debug_letters", MOST_LETTERS, _LETTERS),
        ),
    ),
)
LIMITS = tuple(rule.code for rule in RULES)

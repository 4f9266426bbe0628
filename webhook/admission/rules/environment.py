"""Rules on the variables that steer the hook, the loader or NVIDIA's runtime: in a container with a vGPU we set them.

The rule it owns: exactly the value that the webhook itself would write may stand there, so its own output passes.
"""

from collections.abc import Iterable

from contract.words import names
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.injected import GUARDED_NAMES, GUARDED_PREFIX, HIDDEN, LET_PASS, is_guarded, our_value
from webhook.admission.json_fields import Json
from webhook.admission.pod import Container
from webhook.admission.rule import MODES_OF_SEVERAL, Facts, Offenders, PodRule, Rule, Scope


def _set_by_user(facts: Facts) -> Offenders:
    return _named_by_container((container, _not_ours(facts, container)) for container in facts.sharing)


def _named_by_container(found: Iterable[tuple[Container, list[str]]]) -> Offenders:
    return tuple(f"{' and '.join(keys)} in container '{container.name}'" for container, keys in found if keys)


def _not_ours(facts: Facts, container: Container) -> list[str]:
    mode = facts.expected_mode(container)
    return [
        name
        for name, entry in _steering(container)
        if is_guarded(name)
        and not entry.get("valueFrom")
        and (entry.get("value") or "") != our_value(name, container, mode)
    ]


def _steering(container: Container) -> list[tuple[str, Json]]:
    return [(entry["name"], entry) for _, entry in container.steering]


def _from_reference(facts: Facts) -> Offenders:
    return _named_by_container((container, _references(container)) for container in facts.sharing)


def _references(container: Container) -> list[str]:
    return [
        name
        for name, entry in _steering(container)
        if entry.get("valueFrom") and (name == names.ENV_PRELOAD or is_guarded(name))
    ]


def _debug_variable(facts: Facts) -> Offenders:
    return tuple(
        f"container '{container.name}'"
        for container in facts.new_ephemeral
        for name, entry in _steering(container)
        if name == names.ENV_VISIBLE_DEVICES and entry.get("value") != HIDDEN
    )


_GUARDED = (
    f"(e.name in {cel.texts(GUARDED_NAMES)} || (e.name.startsWith({cel.text(GUARDED_PREFIX)})"
    f" && e.name != {cel.text(names.ENV_LOG)}))"
)
_MODE = f"({cel.VGPUS} == 1 || variables.reduces ? 'single' : variables.mode)"
_GIVEN = (
    f"({cel.VGPUS} > 1 && e.?value.orValue('') in {cel.texts(MODES_OF_SEVERAL)} && variables.completed_as.contains("
    "' ' + c.name + '=' + e.?value.orValue('') + ' '))"
)
"""The mode that the completed pod got from its namespace.  The API server may know a newer annotation, or an older."""
_OURS = (
    f"((e.name == {cel.text(names.ENV_MODE)} && (e.?value.orValue('') == {_MODE} || {_GIVEN}))"
    f" || (c.?envFrom.orValue([]).size() > 0"
    f" && {cel.mapping(LET_PASS)}[?e.name] == optional.of(e.?value.orValue(''))))"
)
_SET = f"!has(e.valueFrom) && {_GUARDED} && !{_OURS}"
_REFERS = f"has(e.valueFrom) && (e.name == {cel.text(names.ENV_PRELOAD)} || {_GUARDED})"


def _env_cel(containers: str, condition: str) -> str:
    return (
        f"{containers}.filter(c, c.?env.orValue([]).exists(e, {condition}))"
        f".map(c, c.env.filter(e, {condition}).map(e, e.name).join(' and ') + \" in container '\" + c.name + \"'\")"
    )


RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("GuardedVariable"),
        cause="A container with a vGPU may not set variables that steer the sharing of GPUs: {found}.",
        remedy=f"Remove them from its env: {', '.join(GUARDED_NAMES)} and {GUARDED_PREFIX}* are set by the system,"
        f" and of these only {names.ENV_LOG} is yours to set.",
        find=_set_by_user,
        cel=_env_cel("variables.asking", _SET),
    ),
    Rule(
        code=ReasonCode("VariableFromReference"),
        cause="A container with a vGPU may not take these from a reference, which cannot be read here: {found}.",
        remedy="Write LD_PRELOAD as a plain value (it is kept, with the hook put in front), and remove the others.",
        find=_from_reference,
        cel=_env_cel("variables.asking", _REFERS),
    ),
    Rule(
        code=ReasonCode("DebugContainerVariable"),
        cause=f"A debug container on a pod with a vGPU may not set {names.ENV_VISIBLE_DEVICES}: {{found}}.",
        remedy="Remove it: a debug container takes no turns on the GPU and so may not see one.",
        scope=Scope.EPHEMERAL,
        find=_debug_variable,
        cel="variables.new_debug.filter(c, c.?env.orValue([]).exists(e,"
        f" e.name == {cel.text(names.ENV_VISIBLE_DEVICES)}"
        f" && e.?value.orValue('') != {cel.text(HIDDEN)}))"
        '.map(c, "container \'" + c.name + "\'")',
    ),
)

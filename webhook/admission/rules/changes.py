"""Rules on a change of a pod with a vGPU: our annotations and our label are settled, and it stays small enough.

The rule it owns: only pods that have the label `nvshare.com/vgpu` before or after the change are looked at.  The API
server converts both for a policy that matches, which takes 65 ms for 60,000 annotations.  The webhook writes the label
into each pod with a vGPU, and these rules keep it there.
"""

from collections.abc import Mapping

from contract.words import names
from contract.words.grammar import POD_ANNOTATIONS, WRITTEN_BY_US
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.rule import Change, Offenders, Rule, Scope

_OURS = names.DOMAIN + "/"
_LABEL = cel.text(names.VGPU_LABEL)
_LABEL_SHOWN = f"label {names.VGPU_LABEL}"
_KINDS = ("annotations", "labels")


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> Offenders:
    keys = sorted({key for key in (*before, *after) if key.startswith(_OURS)})
    return tuple(key for key in keys if before.get(key) != after.get(key))


def _changed(change: Change) -> Offenders:
    before, after = (held.labels.get(names.VGPU_LABEL) for held in (change.before, change.after))
    is_marked_now = before is None and after == names.VGPU_LABEL_VALUE and change.asks
    label = () if before == after or is_marked_now else (_LABEL_SHOWN,)
    return (*_differing(change.before.annotations, change.after.annotations), *label)


def _grown(change: Change) -> Offenders:
    sizes = ((kind, len(getattr(change.before, kind)), len(getattr(change.after, kind))) for kind in _KINDS)
    return tuple(_too_many(str(after), kind) for kind, before, after in sizes if after > max(before, cel.MOST_KEYS))


def _too_many(number: str, kind: str) -> str:
    return f"{number} {kind} (at most {cel.MOST_KEYS})"


# The same in CEL.  A pod that was marked later may have many keys.  So the keys that we read are looked up one by one.
# Other keys of our domain, which no program reads, are searched only where there are not too many.
_READ_BY_US = cel.texts((*(word.key for word in POD_ANNOTATIONS), *WRITTEN_BY_US))


def _held(holder: str, kind: str) -> str:
    return f"{holder}.metadata.?{kind}"


VARIABLES = {
    f"{kind}_{when}": f"{_held(holder, kind)}.orValue({{}})"
    for kind in _KINDS
    for when, holder in (("before", "oldObject"), ("after", "object"))
}
_LABEL_CHANGED = f"{_held('oldObject', 'labels')}[?{_LABEL}] != {_held('object', 'labels')}[?{_LABEL}]"


def _has_unknown(holder: str) -> str:
    annotations = f"{_held(holder, 'annotations')}.orValue({{}})"
    return f"({annotations}.size() <= {cel.MOST_KEYS} && {annotations}.exists(k, k.startsWith({cel.text(_OURS)})))"


def _grows(kind: str) -> str:
    before, after = (f"{_held(holder, kind)}.orValue({{}}).size()" for holder in ("oldObject", "object"))
    return f"({after} > {cel.MOST_KEYS} && {after} > {before})"


CHANGES_OURS = " || ".join(
    (
        f"{_READ_BY_US}.exists(k, {_held('oldObject', 'annotations')}[?k] != {_held('object', 'annotations')}[?k])",
        *(_has_unknown(holder) for holder in ("oldObject", "object")),
        _LABEL_CHANGED,
        *map(_grows, _KINDS),
    )
)
"""The condition under which the rules on changes are evaluated; it is cheap for a pod of any size."""


def _others_cel(holder: str, condition: str) -> str:
    found = f"{holder}.filter(k, k.startsWith({cel.text(_OURS)}) && !(k in {_READ_BY_US}) && {condition})"
    return f"({holder}.size() > {cel.MOST_KEYS} ? [] : {found})"


_BEFORE, _AFTER = "variables.annotations_before", "variables.annotations_after"
_IS_MARKED_NOW = (
    f"(!({_LABEL} in variables.labels_before) && variables.labels_after[?{_LABEL}].orValue('')"
    f" == {cel.text(names.VGPU_LABEL_VALUE)} && ({cel.asks_for_vgpu()}))"
)


def _grown_cel(kind: str) -> str:
    number = f"variables.{kind}_after.size()"
    _, _, rest = _too_many("", kind).partition(" ")
    return cel.either(_grows(kind), f"string({number}) + {cel.text(' ' + rest)}")


CHANGE_RULES: tuple[Rule[Change], ...] = (
    Rule(
        code=ReasonCode("AnnotationChanged"),
        cause="The nvshare.com/ annotations of a pod with a vGPU, and its label nvshare.com/vgpu,"
        " are settled when it is created, and this change touches {found}.",
        remedy="Leave them as they are; to run with others, create the pod anew.",
        scope=Scope.POD_UPDATE,
        find=_changed,
        cel=f"{_READ_BY_US}.filter(k, {_BEFORE}[?k] != {_AFTER}[?k])"
        f" + {_others_cel(_AFTER, f'{_BEFORE}[?k] != optional.of({_AFTER}[k])')}"
        f" + {_others_cel(_BEFORE, f'!(k in {_AFTER})')}"
        f" + {cel.either(f'{_LABEL_CHANGED} && !{_IS_MARKED_NOW}', cel.text(_LABEL_SHOWN))}",
    ),
    Rule(
        code=ReasonCode("PodOutgrown"),
        cause="With this change the pod becomes larger than a pod with a vGPU may be: it has {found}.",
        remedy="Keep large or many values in a ConfigMap or in an object of your own.",
        scope=Scope.POD_UPDATE,
        find=_grown,
        cel=" + ".join(map(_grown_cel, _KINDS)),
    ),
)

"""Rules on our annotations of a pod: known keys, values of the grammar, none above the ceiling of the namespace."""

import re
from collections.abc import Callable

from contract.errors import BadValue
from contract.words import names
from contract.words.grammar import (
    LABELS_WRITTEN_BY_US,
    POD_ANNOTATIONS,
    WRITTEN_BY_US,
    read_memory_bytes,
    read_quantum_ms,
    read_weight,
    read_word,
    unknown_keys,
)
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.namespace_policy import NamespacePolicy
from webhook.admission.rule import Facts, Offenders, PodRule, Rule

_KNOWN = ", ".join(word.key for word in POD_ANNOTATIONS)
_OURS = names.DOMAIN + "/"
_CDI_DOMAIN = "cdi.k8s.io/"
_CDI_KEY = re.compile(rf"(?:.+\.)?{re.escape(_CDI_DOMAIN)}")
"""CDI's own domain, and those below it: NVIDIA's NRI plugin reads nvidia.cdi.k8s.io/."""


def _unknown_keys(facts: Facts) -> Offenders:
    annotations = unknown_keys(POD_ANNOTATIONS, facts.pod.annotations) if facts.pod.annotations else ()
    labels = tuple(key for key in facts.pod.labels if key.startswith(_OURS) and key not in LABELS_WRITTEN_BY_US)
    return (*(f"annotation '{key}'" for key in annotations), *(f"label '{key}'" for key in labels))


def _bad_values(facts: Facts) -> Offenders:
    problems: list[str] = []
    if not facts.pod.annotations:
        return ()
    for word in POD_ANNOTATIONS:
        if word.key in facts.pod.annotations:
            try:
                read_word(word, facts.pod.annotations[word.key])
            except BadValue as error:
                problems.append(str(error))
    return tuple(problems)


_CEILINGS: dict[str, tuple[Callable[[str], int], Callable[[NamespacePolicy], int | None], str]] = {
    names.MEMORY: (read_memory_bytes, lambda namespace: namespace.max_memory, names.MAX_MEMORY),
    names.WEIGHT: (read_weight, lambda namespace: namespace.max_weight, names.MAX_WEIGHT),
    names.QUANTUM: (read_quantum_ms, lambda namespace: namespace.max_quantum, names.MAX_QUANTUM),
}


def _beyond_ceilings(facts: Facts) -> Offenders:
    """Find annotations above their ceiling; a value that cannot be read is left to the rule `BadValue`."""
    found: list[str] = []
    if not facts.pod.annotations:
        return ()
    for key, (read, ceiling_of, ceiling_key) in _CEILINGS.items():
        ceiling, text = ceiling_of(facts.namespace), facts.pod.annotations.get(key)
        if ceiling is not None and text is not None and _reads_above(read, text, ceiling):
            found.append(f"{key} '{text}' is above {ceiling_key} '{facts.namespace.texts[ceiling_key]}'")
    return tuple(found)


def _reads_above(read: Callable[[str], int], text: str, ceiling: int) -> bool:
    try:
        return read(text) > ceiling
    except ValueError:
        return False


def _beyond_ceilings_cel() -> str:
    own, theirs = "variables.annotations", "variables.namespace_annotations"
    return " + ".join(
        cel.either(
            cel.is_above(key, own, ceiling_key, theirs),
            f'"{key} \'" + {own}[{cel.text(key)}] + "\' is above {ceiling_key} \'"'
            f' + {theirs}[{cel.text(ceiling_key)}] + "\'"',
        )
        for key, (_, _, ceiling_key) in _CEILINGS.items()
    )


def _names_devices(facts: Facts) -> Offenders:
    """Find keys by which a runtime or NVIDIA's NRI plugin is told CDI devices: they would add other cards."""
    return tuple(sorted(key for key in facts.pod.annotations or () if _CDI_KEY.match(key)))


def _too_many(facts: Facts) -> Offenders:
    ceiling = facts.namespace.max_gpus
    return (f"{facts.vgpus}, and the namespace grants {ceiling}",) if ceiling and facts.vgpus > ceiling else ()


_CEILING = f"variables.namespace_annotations[{cel.text(names.MAX_GPUS)}]"

RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("UnknownKey"),
        cause="The pod has a nvshare.com/ key that does not exist: {found}.",
        remedy=f"Remove it, or write the one that was meant: the pod annotations {_KNOWN}.",
        find=_unknown_keys,
        cel=cel.unknown_keys(
            POD_ANNOTATIONS, "variables.annotations", what='"annotation \'" + k + "\'"', known_too=WRITTEN_BY_US
        )
        + f" + (variables.labels.size() > {cel.MOST_KEYS} ? [] : variables.labels"
        f".filter(k, k.startsWith({cel.text(_OURS)}) && !(k in {cel.texts(LABELS_WRITTEN_BY_US)}))"
        '.map(k, "label \'" + k + "\'"))',
    ),
    Rule(
        code=ReasonCode("BadValue"),
        cause="A pod annotation of ours has a value that it cannot have: {found}.",
        remedy="Write one of the values named, or remove the annotation.",
        find=_bad_values,
        cel=cel.bad_values(POD_ANNOTATIONS, "variables.annotations"),
    ),
    Rule(
        code=ReasonCode("DeviceAnnotation"),
        cause="A pod with a vGPU may not name CDI devices in annotations, which could be other GPUs: {found}.",
        remedy="Remove the annotation; the vGPU brings its devices by itself.",
        find=_names_devices,
        cel=f"(variables.annotations.size() > {cel.MOST_KEYS} ? [] : variables.annotations.filter(k,"
        f" k.startsWith({cel.text(_CDI_DOMAIN)}) || k.contains({cel.text('.' + _CDI_DOMAIN)})))",
    ),
    Rule(
        code=ReasonCode("AboveCeiling"),
        cause="A pod annotation asks for more than its namespace grants: {found}.",
        remedy="Lower the annotation to the namespace's ceiling, or ask an administrator to raise the ceiling.",
        find=_beyond_ceilings,
        cel=_beyond_ceilings_cel(),
    ),
    Rule(
        code=ReasonCode("TooManyGpus"),
        cause="The pod asks for more vGPUs at once than its namespace grants a pod: {found}.",
        remedy="Ask for fewer nvshare.com/gpu over all containers,"
        " or ask an administrator to raise nvshare.com/max-gpus on the Namespace.",
        find=_too_many,
        cel=cel.either(
            f"{cel.is_legal(names.MAX_GPUS, 'variables.namespace_annotations')} && variables.vgpus > int({_CEILING})",
            f"string(variables.vgpus) + ', and the namespace grants ' + {_CEILING}",
        ),
    ),
)

"""Our own annotations on a pod: every key known, every value in its grammar, none beyond the namespace's ceiling.

May import the contract and `rule`.
"""

from collections.abc import Callable
from contract import names
from contract.errors import BadValue
from contract.grammar import (
    POD_ANNOTATIONS,
    read_memory_bytes,
    read_quantum_ms,
    read_weight,
    read_word,
    unknown_keys,
)
from contract.reasons import ReasonCode
from webhook.namespace_policy import NamespacePolicy
from webhook.rule import Facts, Offenders, Rule

_KNOWN = ", ".join(word.key for word in POD_ANNOTATIONS)


def _unknown_keys(facts: Facts) -> Offenders:
    annotations = unknown_keys(POD_ANNOTATIONS, facts.pod.annotations)
    labels = tuple(key for key in facts.pod.labels if key.startswith(names.DOMAIN + "/"))
    return (*(f"annotation '{key}'" for key in annotations), *(f"label '{key}'" for key in labels))


def _bad_values(facts: Facts) -> Offenders:
    problems = []
    for word in POD_ANNOTATIONS:
        if word.key in facts.pod.annotations:
            try:
                read_word(word, facts.pod.annotations[word.key])
            except BadValue as error:
                problems.append(str(error))
    return tuple(problems)


def _above(facts: Facts, key: str, ceiling_key: str) -> Offenders:
    """The annotation `key`, where it is beyond the namespace's ceiling; a value that cannot be read is another rule's."""
    read, ceiling_of = _CEILINGS[key]
    ceiling, text = ceiling_of(facts.namespace), facts.pod.annotations.get(key)
    if ceiling is None or text is None:
        return ()
    try:
        value = read(text)
    except ValueError:
        return ()
    return (f"{key} '{text}' is above {ceiling_key} '{facts.namespace.texts[ceiling_key]}'",) if value > ceiling else ()


_CEILINGS: dict[str, tuple[Callable[[str], int], Callable[[NamespacePolicy], int | None]]] = {
    names.MEMORY: (read_memory_bytes, lambda namespace: namespace.max_memory),
    names.WEIGHT: (read_weight, lambda namespace: namespace.max_weight),
    names.QUANTUM: (read_quantum_ms, lambda namespace: namespace.max_quantum),
}
_CEILING_KEYS = ((names.MEMORY, names.MAX_MEMORY), (names.WEIGHT, names.MAX_WEIGHT), (names.QUANTUM, names.MAX_QUANTUM))


def _beyond_ceilings(facts: Facts) -> Offenders:
    found: list[str] = []
    for key, ceiling_key in _CEILING_KEYS:
        found += _above(facts, key, ceiling_key)
    return tuple(found)


def too_many(facts: Facts) -> Offenders:
    """The pod's vGPUs, where they are more than its namespace grants a pod."""
    ceiling = facts.namespace.max_gpus
    return (f"{facts.vgpus}, and the namespace grants {ceiling}",) if ceiling and facts.vgpus > ceiling else ()


RULES: tuple[Rule, ...] = (
    Rule(
        code=ReasonCode("UnknownKey"),
        cause="The pod has a nvshare.com/ key that does not exist: {found}.",
        remedy=f"Remove it, or write the one that was meant: the pod annotations {_KNOWN}.",
        find=_unknown_keys,
    ),
    Rule(
        code=ReasonCode("BadValue"),
        cause="A pod annotation of ours has a value that it cannot have: {found}.",
        remedy="Write one of the values named, or remove the annotation.",
        find=_bad_values,
    ),
    Rule(
        code=ReasonCode("AboveCeiling"),
        cause="A pod annotation asks for more than its namespace grants: {found}.",
        remedy="Lower the annotation to the namespace's ceiling, or ask an administrator to raise the ceiling.",
        find=_beyond_ceilings,
    ),
    Rule(
        code=ReasonCode("TooManyGpus"),
        cause="The pod asks for more vGPUs at once than its namespace grants a pod: {found}.",
        remedy="Ask for fewer nvshare.com/gpu over all containers,"
        " or ask an administrator to raise nvshare.com/max-gpus on the Namespace.",
        find=too_many,
    ),
)

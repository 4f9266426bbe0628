"""The policy of a namespace: its labels and annotations about vGPUs, read.

The rule it owns: one value outside the grammar makes the whole policy invalid.  The problem quotes the value; nothing
is guessed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from contract.errors import BadValue
from contract.words import limits, names
from contract.words.grammar import (
    NAMESPACE_ANNOTATIONS,
    NAMESPACE_LABELS,
    Exemption,
    Injection,
    Mode,
    OnMultiGpu,
    Word,
    read_word,
    read_words,
    unknown_keys,
)
from webhook.admission.cel import MOST_KEYS
from webhook.admission.json_fields import Json, read_map, read_text, read_texts

EXCLUDED_NAMESPACES = ("kube-system", names.SYSTEM_NAMESPACE)
"""Namespaces that never take part, whatever their labels say: the pods that start the webhook may not need it."""
NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server writes this label on every Namespace."""
POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"


class PodSecurity(StrEnum):
    """A level of Kubernetes' Pod Security; all but the first refuse hostPath volumes."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePolicy:
    """The policy of one namespace."""

    name: str
    injection: Injection | None = None
    mode: Mode | None = None
    on_multi_gpu: OnMultiGpu = OnMultiGpu.REJECT
    max_gpus: int | None = None
    max_memory: int | None = None
    """Bytes."""
    max_weight: int | None = None
    max_quantum: int | None = None
    """Milliseconds."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """The annotations that a pod gets where it has none of its own."""
    allow: frozenset[Exemption] = frozenset()
    pod_security: PodSecurity | None = None
    """The level that is enforced; None where the Namespace does not say: then the cluster's default counts."""
    problems: tuple[str, ...] = ()
    """The faults of labels and annotations, one entry each.  With a fault, no other field here may be relied upon."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The annotations as written, for messages."""

    @property
    def is_excluded(self) -> bool:
        return self.name in EXCLUDED_NAMESPACES

    def allows(self, exemption: Exemption) -> bool:
        return exemption in self.allow


def select_namespaces(*conditions: tuple[str, str, Iterable[str]]) -> Json:
    """Return a webhook's selector of namespaces by labels; a condition is a key, an operator and values."""
    expressions = [
        {"key": key, "operator": operator, "values": [str(value) for value in values]}
        for key, operator, values in conditions
    ]
    return {"namespaceSelector": {"matchExpressions": expressions}}


def select_opted_in(*words: Injection) -> Json:
    """Return the selector of namespaces that one of these words opts in; excluded namespaces are never selected."""
    return select_namespaces((NAME_LABEL, "NotIn", EXCLUDED_NAMESPACES), (names.INJECTION_LABEL, "In", words))


def read_namespace(raw: Json) -> NamespacePolicy:
    """Return the policy in a Namespace object."""
    metadata = read_map(raw, "metadata")
    return policy_of(read_text(metadata, "name"), read_texts(metadata, "labels"), read_texts(metadata, "annotations"))


def policy_of(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> NamespacePolicy:
    """Return the policy that these labels and annotations mean."""
    problems = namespace_problems(labels, annotations)
    if problems:
        return NamespacePolicy(
            name=name,
            injection=_injection(labels),
            pod_security=_pod_security(labels),
            problems=problems,
            texts=annotations,
        )
    words = read_words(NAMESPACE_ANNOTATIONS, annotations)
    return NamespacePolicy(
        name=name,
        injection=_injection(labels),
        mode=cast(Mode | None, words.get(names.MULTI_GPU)),
        on_multi_gpu=cast(OnMultiGpu, words.get(names.ON_MULTI_GPU, OnMultiGpu.REJECT)),
        max_gpus=cast(int | None, words.get(names.MAX_GPUS)),
        max_memory=cast(int | None, words.get(names.MAX_MEMORY)),
        max_weight=cast(int | None, words.get(names.MAX_WEIGHT)),
        max_quantum=cast(int | None, words.get(names.MAX_QUANTUM)),
        defaults=_defaults(annotations, words),
        allow=cast(frozenset[Exemption], words.get(names.ALLOW, frozenset())),
        pod_security=_pod_security(labels),
        texts=annotations,
    )


def _injection(labels: Mapping[str, str]) -> Injection | None:
    try:
        return Injection(labels.get(names.INJECTION_LABEL, ""))
    except ValueError:
        return None


def _pod_security(labels: Mapping[str, str]) -> PodSecurity | None:
    level = labels.get(POD_SECURITY_LABEL)
    if level is None:
        return None
    try:
        return PodSecurity(level)
    except ValueError:
        return PodSecurity.RESTRICTED  # the API server takes an unknown level for this one


def namespace_problems(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each value and key of ours that a Namespace may not have."""
    bad = (*_bad_values(NAMESPACE_LABELS, labels), *_bad_values(NAMESPACE_ANNOTATIONS, annotations))
    unknown = (
        *(f"label {key} is not one we know" for key in _unknown_keys(NAMESPACE_LABELS, labels)),
        *(f"annotation {key} is not one we know" for key in _unknown_keys(NAMESPACE_ANNOTATIONS, annotations)),
    )
    return (*_too_many_keys(labels, annotations), *bad, *unknown) or _contradictions(annotations)


TOO_MANY_KEYS = f" {{}} are more than the {MOST_KEYS} that a Namespace with shared GPUs may have"


def _too_many_keys(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    if names.INJECTION_LABEL not in labels:
        return ()
    kinds = (("labels", labels), ("annotations", annotations))
    return tuple(f"{len(found)}{TOO_MANY_KEYS.format(what)}" for what, found in kinds if len(found) > MOST_KEYS)


def _unknown_keys(table: tuple[Word, ...], found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the unknown keys; do not search among too many, as the API server's policy does not either."""
    return unknown_keys(table, found) if len(found) <= MOST_KEYS else ()


def _bad_values(table: tuple[Word, ...], found: Mapping[str, str]) -> tuple[str, ...]:
    problems = []
    for word in table:
        if word.key in found:
            try:
                read_word(word, found[word.key])
            except BadValue as error:
                problems.append(str(error))
    return tuple(problems)


CEILING_PAIRS = ((names.DEFAULT_MEMORY, names.MAX_MEMORY), (names.DEFAULT_WEIGHT, names.MAX_WEIGHT))


def _contradictions(annotations: Mapping[str, str]) -> tuple[str, ...]:
    words = read_words(NAMESPACE_ANNOTATIONS, annotations)
    return tuple(
        f"{default}: '{annotations[default]}' is above {ceiling}: '{annotations[ceiling]}'"
        for default, ceiling in CEILING_PAIRS
        if default in words and ceiling in words and cast(int, words[default]) > cast(int, words[ceiling])
    )


def _defaults(annotations: Mapping[str, str], words: Mapping[str, object]) -> dict[str, str]:
    """Return the default annotations; without one, the ceiling is the default, so that it binds silent pods too."""
    defaults: dict[str, str] = {}
    memory = annotations.get(names.DEFAULT_MEMORY, annotations.get(names.MAX_MEMORY))
    if memory is not None:
        defaults[names.MEMORY] = memory
    ceiling = cast(int, words.get(names.MAX_WEIGHT, limits.DEFAULT_WEIGHT))
    if names.DEFAULT_WEIGHT in annotations:
        defaults[names.WEIGHT] = annotations[names.DEFAULT_WEIGHT]
    elif ceiling < limits.DEFAULT_WEIGHT:
        defaults[names.WEIGHT] = str(ceiling)
    return defaults

"""Rules on the namespace: it must take part, and its labels and annotations must be valid."""

from contract.words import names
from contract.words.grammar import NAMESPACE_ANNOTATIONS, NAMESPACE_LABELS, WRITTEN_BY_US, Injection
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.namespace_policy import CEILING_PAIRS, EXCLUDED_NAMESPACES, TOO_MANY_KEYS, NamespacePolicy
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope


def _excluded(facts: Facts) -> Offenders:
    return (f"'{facts.namespace.name}'",) if facts.namespace.is_excluded else ()


def _bad_policy(facts: Facts) -> Offenders:
    return facts.namespace.problems


def _not_opted_in(facts: Facts) -> Offenders:
    namespace = facts.namespace
    is_out = namespace.injection is None and not namespace.is_excluded and not namespace.problems
    return (f"'{namespace.name}'",) if is_out else ()


def problems_cel(labels: str, annotations: str) -> str:
    """Return `namespace_problems` as a CEL expression."""
    parts = (
        *(
            cel.either(
                f"{cel.text(names.INJECTION_LABEL)} in {labels} && {found}.size() > {cel.MOST_KEYS}",
                f"string({found}.size()) + {cel.text(TOO_MANY_KEYS.format(what))}",
            )
            for what, found in (("labels", labels), ("annotations", annotations))
        ),
        cel.bad_values(NAMESPACE_LABELS, labels),
        cel.bad_values(NAMESPACE_ANNOTATIONS, annotations),
        cel.unknown_keys(
            NAMESPACE_LABELS, labels, what="'label ' + k + ' is not one we know'", known_too=WRITTEN_BY_US
        ),
        cel.unknown_keys(
            NAMESPACE_ANNOTATIONS,
            annotations,
            what="'annotation ' + k + ' is not one we know'",
            known_too=WRITTEN_BY_US,
        ),
        *(
            cel.either(
                cel.is_above(default, annotations, ceiling, annotations),
                f'"{default}: \'" + {annotations}[{cel.text(default)}] + "\' is above {ceiling}: \'"'
                f' + {annotations}[{cel.text(ceiling)}] + "\'"',
            )
            for default, ceiling in CEILING_PAIRS
        ),
    )
    return " + ".join(parts)


_NAME = "namespaceObject.metadata.name"
_QUOTED = f'"\'" + {_NAME} + "\'"'
_LABELS, _ANNOTATIONS = "variables.namespace_labels", "variables.namespace_annotations"
_OPTED_IN = f"{_LABELS}[?{cel.text(names.INJECTION_LABEL)}].orValue('') in {cel.texts(Injection)}"

RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("NamespaceExcluded"),
        cause="Pods in namespace {found} may not ask for nvshare.com/gpu: the cluster's own must start without us.",
        remedy="Create the pod in a namespace of its own that has the label nvshare.com/injection: enabled.",
        scope=Scope.GATE,
        find=_excluded,
        ends_the_search=True,
        cel=cel.either(f"{_NAME} in {cel.texts(EXCLUDED_NAMESPACES)}", _QUOTED),
    ),
    Rule(
        code=ReasonCode("NamespacePolicyInvalid"),
        cause="The settings of the pod's namespace cannot be read: {found}.",
        remedy="Ask an administrator to correct that label or annotation of the Namespace; the pod need not change.",
        scope=Scope.GATE,
        find=_bad_policy,
        ends_the_search=True,
        cel=problems_cel(_LABELS, _ANNOTATIONS),
    ),
    Rule(
        code=ReasonCode("NamespaceNotOptedIn"),
        cause="The pod asks for nvshare.com/gpu, but its namespace {found} has not opted in to shared GPUs.",
        remedy="Ask an administrator to set the label nvshare.com/injection: enabled on the Namespace,"
        " or create the pod in a namespace that has it.",
        scope=Scope.GATE,
        find=_not_opted_in,
        ends_the_search=True,
        cel=cel.either(f"!({_OPTED_IN})", _QUOTED),
    ),
)


def _own_problems(namespace: NamespacePolicy) -> Offenders:
    return namespace.problems


NAMESPACE_RULES: tuple[Rule[NamespacePolicy], ...] = (
    Rule(
        code=ReasonCode("NamespaceValueUnknown"),
        cause="A label or annotation of ours on this Namespace has a name or value that it cannot have: {found}.",
        remedy="Write one of the values named, or remove the label or annotation; we know the label"
        f" {', '.join(word.key for word in NAMESPACE_LABELS)}"
        f" and the annotations {', '.join(word.key for word in NAMESPACE_ANNOTATIONS)}.",
        scope=Scope.NAMESPACE,
        find=_own_problems,
        cel=problems_cel("variables.labels", "variables.annotations"),
    ),
)

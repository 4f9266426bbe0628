"""Whether this namespace takes part at all, and whether what it says can be relied upon.

May import the contract, `rule` and `namespace_policy`.
"""

from contract.reasons import ReasonCode
from webhook.rule import Facts, Offenders, Rule


def _excluded(facts: Facts) -> Offenders:
    return (f"'{facts.namespace.name}'",) if facts.namespace.is_excluded else ()


def _bad_policy(facts: Facts) -> Offenders:
    return facts.namespace.problems


def _not_opted_in(facts: Facts) -> Offenders:
    namespace = facts.namespace
    is_out = namespace.injection is None and not namespace.is_excluded and not namespace.problems
    return (f"'{namespace.name}'",) if is_out else ()


RULES: tuple[Rule, ...] = (
    Rule(
        code=ReasonCode("NamespaceExcluded"),
        cause="Pods in namespace {found} may not ask for nvshare.com/gpu: the cluster's own parts must start without us.",
        remedy="Create the pod in a namespace of its own that has the label nvshare.com/injection: enabled.",
        find=_excluded,
        ends_the_search=True,
    ),
    Rule(
        code=ReasonCode("NamespacePolicyInvalid"),
        cause="The namespace's own settings cannot be read: {found}.",
        remedy="Ask an administrator to correct that label or annotation of the Namespace; the pod itself need not change.",
        find=_bad_policy,
        ends_the_search=True,
    ),
    Rule(
        code=ReasonCode("NamespaceNotOptedIn"),
        cause="The pod asks for nvshare.com/gpu, but its namespace {found} has not opted in to shared GPUs.",
        remedy="Ask an administrator to set the label nvshare.com/injection: enabled on the Namespace,"
        " or create the pod in a namespace that has it.",
        find=_not_opted_in,
        ends_the_search=True,
    ),
)

"""The table of rules: everything that can refuse a pod, a change of one, or a Namespace, in one order.

Each theme has a module with its entries; the order here is the order of codes in an answer.
May import the contract, `rule` and the themes.
"""

from webhook.admission.rule import PodRule
from webhook.admission.rules import (
    annotations,
    completeness,
    counts,
    environment,
    namespace,
    pod_kind,
    privileges,
    sizes,
    volumes,
)

POD_RULES: tuple[PodRule, ...] = (
    *namespace.RULES,
    *sizes.RULES,
    *annotations.RULES,
    *counts.RULES,
    *pod_kind.RULES,
    *environment.RULES,
    *privileges.RULES,
    *volumes.RULES,
    *completeness.RULES,
)
CHANGE_RULES = annotations.CHANGE_RULES
NAMESPACE_RULES = namespace.NAMESPACE_RULES

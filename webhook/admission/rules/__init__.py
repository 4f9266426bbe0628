"""The table of rules: every rule that can refuse a pod, a change of a pod, or a Namespace.

Each theme has a module with its entries.  The rule it owns: the order here is the order of the codes in an answer.
"""

from webhook.admission.rule import PodRule
from webhook.admission.rules import (
    annotations,
    changes,
    completeness,
    counts,
    environment,
    label,
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
    *label.RULES,
    *completeness.RULES,
)
CHANGE_RULES = changes.CHANGE_RULES
NAMESPACE_RULES = namespace.NAMESPACE_RULES

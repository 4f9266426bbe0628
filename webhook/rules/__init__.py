"""The table of rules: everything that can refuse a pod, a change of one, or a Namespace, in one order.

Each theme has a module with its entries; the order here is the order of codes in an answer.
May import the contract, `rule` and the themes.
"""

from webhook.rule import PodRule
from webhook.rules import counts, environment, final, gate, keys, kinds, paths, privileges, sizes

POD_RULES: tuple[PodRule, ...] = (
    *gate.RULES,
    *sizes.RULES,
    *keys.RULES,
    *counts.RULES,
    *kinds.RULES,
    *environment.RULES,
    *privileges.RULES,
    *paths.RULES,
    *final.RULES,
)
CHANGE_RULES = keys.CHANGE_RULES
NAMESPACE_RULES = gate.NAMESPACE_RULES

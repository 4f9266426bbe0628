"""Rules that come last: after every other webhook, the completed pod must still be complete.

For pods in files there is also the rule on quantities, which the API server checks by itself.
"""

from contract.words import names
from contract.words.grammar import Injection
from contract.words.reasons import ReasonCode
from webhook.admission.injection import hide_gpus_from_debuggers, undone
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope


def _lost(facts: Facts) -> Offenders:
    if facts.namespace.injection is Injection.WARN:
        return ()  # nothing was completed
    missing = hide_gpus_from_debuggers(facts.new_ephemeral) if facts.is_debugging else undone(facts)
    return tuple(dict.fromkeys(operation["path"].removesuffix("/-") for operation in missing))


def _illegal_quantities(facts: Facts) -> Offenders:
    return tuple(f"container '{item.name}'" for item in facts.pod.containers if not item.quantity_is_legal)


RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("InjectionLost"),
        cause="Another admission webhook undid what nvshare.com had completed in the pod: {found}.",
        remedy="If its Namespace opted in just now, create the pod again; else ask an administrator to keep that"
        " webhook from these fields, or to register it under a name that sorts before ours.",
        scope=Scope.FINAL,
        find=_lost,
    ),
    Rule(
        code=ReasonCode("IllegalQuantity"),
        cause=f"The API server refuses this quantity of {names.RESOURCE}: {{found}}.",
        remedy="Write a whole number that is not negative under resources.limits,"
        " and the same under requests or nothing there.",
        scope=Scope.OFFLINE,
        find=_illegal_quantities,
    ),
)

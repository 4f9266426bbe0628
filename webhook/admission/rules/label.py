"""The rule on the label `nvshare.com/vgpu`: no pod has it without a vGPU.

A change of a pod with the label is looked at by a policy, which costs the API server time.  So a pod that has no vGPU
may not ask for that.
"""

from contract.words import names
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope


def _needless(facts: Facts) -> Offenders:
    return (names.VGPU_LABEL,) if names.VGPU_LABEL in facts.pod.labels and not facts.sharing else ()


ASKS_FOR_NONE = f"!({cel.asks_for_vgpu()})"

RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("LabelWithoutVgpu"),
        cause="The pod has the label nvshare.com/vgpu, which marks the pods with a vGPU,"
        " but it asks for no nvshare.com/gpu.",
        remedy="Remove the label: the webhook writes it into every pod that asks for a vGPU.",
        scope=Scope.LABELLED,
        find=_needless,
        cel=cel.either(
            f"{cel.text(names.VGPU_LABEL)} in variables.labels && {ASKS_FOR_NONE}", cel.text(names.VGPU_LABEL)
        ),
    ),
)

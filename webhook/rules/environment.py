"""Variables that steer the hook, the loader or NVIDIA's runtime: ours to set in a container with a vGPU.

Exactly what the webhook itself would write may stand there; so its own output passes.
May import the contract, `words` and `rule`.
"""

from collections.abc import Iterator

from contract import names
from contract.reasons import ReasonCode
from webhook.pod import Container
from webhook.rule import Facts, Offenders, Rule
from webhook.words import GUARDED_NAMES, is_guarded, our_value


def _set_by_user(facts: Facts) -> Offenders:
    return tuple(
        f"{name} in container '{container.name}'"
        for container in facts.sharing
        for name in _literals(container)
        if is_guarded(name) and not _is_ours(facts, container, name)
    )


def _literals(container: Container) -> Iterator[str]:
    return (entry.get("name") or "" for entry in container.env if not entry.get("valueFrom"))


def _is_ours(facts: Facts, container: Container, name: str) -> bool:
    ours = our_value(name, container, facts.expected_mode(container))
    values = {entry.get("value") or "" for entry in container.env if entry.get("name") == name}
    return values == {ours}


def _from_reference(facts: Facts) -> Offenders:
    return tuple(
        f"{entry.get('name')} in container '{container.name}'"
        for container in facts.sharing
        for entry in container.env
        if entry.get("valueFrom") and _may_not_refer(entry.get("name") or "")
    )


def _may_not_refer(name: str) -> bool:
    return name == names.ENV_PRELOAD or is_guarded(name)


RULES: tuple[Rule, ...] = (
    Rule(
        code=ReasonCode("GuardedVariable"),
        cause="A container with a vGPU may not set variables that steer the sharing of GPUs: {found}.",
        remedy=f"Remove them from its env; {', '.join(GUARDED_NAMES)} and NVSHARE_* are set by the system,"
        f" and of these only {names.ENV_LOG} is yours to set.",
        find=_set_by_user,
    ),
    Rule(
        code=ReasonCode("VariableFromReference"),
        cause="A container with a vGPU may not take these variables from a reference, which cannot be read here: {found}.",
        remedy="Write LD_PRELOAD as a plain value (it is kept, with the hook put in front), and remove the others.",
        find=_from_reference,
    ),
)

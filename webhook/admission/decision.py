"""The decision on one pod: allow, complete, reduce, warn or deny, with every reason and its remedy.

The core of the room: a pod and the policy of its namespace go in, a decision comes out.
"""

from dataclasses import dataclass
from enum import StrEnum

from contract.words import names
from contract.words.grammar import Injection, Mode, OnMultiGpu
from contract.words.reasons import ReasonCode, Refusal
from webhook.admission.injection import as_completed, complete, hide_gpus_from_debuggers, reduced_containers
from webhook.admission.namespace_policy import NamespacePolicy, PodSecurity
from webhook.admission.patch import Operation
from webhook.admission.pod import Container, Pod, count_vgpus
from webhook.admission.rule import Facts, Scope
from webhook.admission.rules import POD_RULES


class Verdict(StrEnum):
    """The outcome for the pod."""

    ALLOWED = "allowed"
    COMPLETED = "completed"
    REDUCED = "reduced"
    WARNED = "warned"
    DENIED = "denied"


class Stage(StrEnum):
    """The moment at which the pod is decided on."""

    MUTATE = "mutate"
    VALIDATE = "validate"
    EPHEMERAL = "ephemeral"
    EPHEMERAL_VALIDATE = "ephemeral-validate"
    OFFLINE = "offline"


class Volumes(StrEnum):
    """The choice whether hook and socket are written into the spec as volumes."""

    AUTO = "auto"
    """Write them where the Pod Security of the namespace lets hostPath through."""
    NEVER = "never"
    """Never write them: hook and socket come with the allocation."""
    WHERE_PRIVILEGED = "where-privileged"
    """AUTO in a cluster whose default refuses hostPath: write them only where the namespace itself says privileged."""

    def in_cluster(self, default: PodSecurity) -> "Volumes":
        """Return the choice that this one becomes in a cluster with this default of Pod Security."""
        is_open = self is Volumes.NEVER or default is PodSecurity.PRIVILEGED
        return self if is_open else Volumes.WHERE_PRIVILEGED


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, before it is put into an envelope."""

    verdict: Verdict
    refusals: tuple[Refusal, ...] = ()
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def codes(self) -> tuple[ReasonCode, ...]:
        return tuple(refusal.code for refusal in self.refusals)

    @property
    def message(self) -> str:
        return "\n".join(str(refusal) for refusal in self.refusals)


VOLUME_CHOICES = (Volumes.AUTO, Volumes.NEVER)
"""The choices of a user; the third follows from the cluster's default."""
_LEVELS_WITH_VOLUMES: dict[Volumes, tuple[PodSecurity | None, ...]] = {
    Volumes.AUTO: (None, PodSecurity.PRIVILEGED),
    Volumes.NEVER: (),
    Volumes.WHERE_PRIVILEGED: (PodSecurity.PRIVILEGED,),
}
_ALLOWED = Decision(Verdict.ALLOWED)
_VGPU_POD = frozenset((Scope.GATE, Scope.VGPU_POD, Scope.ANY_POD))
_SCOPES = {
    Stage.MUTATE: _VGPU_POD,
    Stage.VALIDATE: _VGPU_POD | {Scope.FINAL},
    Stage.EPHEMERAL: frozenset((Scope.EPHEMERAL,)),
    Stage.EPHEMERAL_VALIDATE: frozenset((Scope.EPHEMERAL, Scope.FINAL)),
    Stage.OFFLINE: _VGPU_POD | {Scope.OFFLINE},
}
_PLAIN_POD = {True: frozenset((Scope.ANY_POD, Scope.LABELLED)), False: frozenset((Scope.LABELLED,))}
"""The rules on a pod without vGPUs, by whether its namespace takes part."""
_OF_SCOPES = {
    scopes: tuple(rule for rule in POD_RULES if rule.scope in scopes)
    for scopes in (*_SCOPES.values(), *_PLAIN_POD.values())
}


def gather(
    pod: Pod, namespace: NamespacePolicy, *, volumes: Volumes = Volumes.AUTO, before: frozenset[str] | None = None
) -> Facts:
    """Collect the facts for the rules; `before` names the debug containers of a pod that was running already."""
    names_mode = names.MULTI_GPU in pod.annotations or namespace.mode is not None
    reduces = not names_mode and namespace.on_multi_gpu is OnMultiGpu.REDUCE
    return Facts(
        pod=pod,
        namespace=namespace,
        mode=_mode(pod) or namespace.mode,
        names_mode=names_mode,
        reduces=reduces,
        vgpus=count_vgpus(tuple(item.reduced() for item in pod.containers) if reduces else pod.containers),
        sharing=pod.sharing,
        is_debugging=before is not None,
        new_ephemeral=tuple(item for item in pod.ephemeral if item.name not in (before or ())),
        with_volumes=namespace.pod_security in _LEVELS_WITH_VOLUMES[volumes],
    )


def _mode(pod: Pod) -> Mode | None:
    text = pod.annotations.get(names.MULTI_GPU)
    return _MODES.get(text) if text is not None else None


_WARN_ONLY = "nvshare.com (warn only)"
_MODES = {mode.value: mode for mode in (Mode.GANG, Mode.PER_DEVICE)}


def decide(facts: Facts, stage: Stage) -> Decision:
    """Decide on a pod with these facts."""
    if not facts.pod.quantities_are_legal and stage is not Stage.OFFLINE:
        return _ALLOWED  # the API server refuses this pod itself, in its own words
    if stage is Stage.VALIDATE and facts.namespace.injection is Injection.ENABLED and facts.sharing:
        facts = as_completed(facts)
    refusals = _refusals(facts, stage)
    if facts.namespace.injection is Injection.WARN and not facts.namespace.is_excluded:
        return _warn(facts, refusals, stage)
    if refusals:
        return Decision(Verdict.DENIED, refusals)
    return _completed(facts, stage)


def _refusals(facts: Facts, stage: Stage) -> tuple[Refusal, ...]:
    scopes = _SCOPES[stage]
    if not facts.sharing and facts.pod.quantities_are_legal:
        if facts.namespace.is_excluded or facts.is_debugging:
            return ()
        scopes = _PLAIN_POD[facts.namespace.injection is not None]
    refusals: list[Refusal] = []
    for rule in _OF_SCOPES[scopes]:
        offenders = rule.find(facts)
        if offenders:
            refusals.append(rule.refusal(offenders))
            if rule.ends_the_search:
                break
    return tuple(refusals)


def _completed(facts: Facts, stage: Stage) -> Decision:
    if not facts.sharing or stage in (Stage.VALIDATE, Stage.EPHEMERAL_VALIDATE):
        return _ALLOWED
    if stage is Stage.EPHEMERAL:
        patch = hide_gpus_from_debuggers(facts.new_ephemeral)
        return Decision(Verdict.COMPLETED, patch=patch) if patch else _ALLOWED
    patch, reduced = complete(facts), reduced_containers(facts)
    if reduced:
        return Decision(Verdict.REDUCED, patch=patch, warnings=tuple(map(_reduction_note, reduced)))
    return Decision(Verdict.COMPLETED, patch=patch) if patch else _ALLOWED


def _reduction_note(container: Container) -> str:
    return (
        f"nvshare.com: container '{container.name}' asked {container.vgpus} vGPUs and gets 1, since its namespace"
        f" reduces; for several, annotate the pod with {names.MULTI_GPU}: gang or per-device"
    )


def _warn(facts: Facts, refusals: tuple[Refusal, ...], stage: Stage) -> Decision:
    """Decide as in an enabled namespace, but only warn: refuse nothing and change nothing."""
    would_be = Decision(Verdict.DENIED, refusals) if refusals else _completed(facts, stage)
    if would_be is _ALLOWED:
        return _ALLOWED
    would = tuple(f"{_WARN_ONLY} {text}" for text in _would(facts, refusals))
    return Decision(Verdict.WARNED, refusals, warnings=(*would, *would_be.warnings))


def _would(facts: Facts, refusals: tuple[Refusal, ...]) -> tuple[str, ...]:
    if refusals:
        what = "debug container" if facts.is_debugging else "pod"
        return tuple(f"would deny this {what}: {refusal}" for refusal in refusals)
    if facts.is_debugging:
        return (f"would hide GPUs from the debug container {_named(facts.new_ephemeral)}",)
    return (f"would complete this pod: hook and socket in {_named(facts.sharing)}",)


def _named(containers: tuple[Container, ...]) -> str:
    return ", ".join(f"'{container.name}'" for container in containers)

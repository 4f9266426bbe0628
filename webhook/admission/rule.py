"""The form of a rule: a code, a cause, a remedy, Python that finds the offenders, and CEL that finds the same ones.

The rule it owns: Python and CEL return the offenders as the same short texts.  They are put into the sentence of the
cause, so the webhook and the API server refuse with the same words.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from contract.words import names
from contract.words.grammar import Mode
from contract.words.reasons import ReasonCode, Refusal
from webhook.admission.namespace_policy import NamespacePolicy
from webhook.admission.pod import Container, Pod

Offenders = tuple[str, ...]
MODES_OF_SEVERAL = (Mode.GANG, Mode.PER_DEVICE)
Subject = TypeVar("Subject")


class Scope(Enum):
    """The objects that a rule looks at, in words for the documentation."""

    GATE = "a pod that asks for a vGPU, wherever it is created"
    VGPU_POD = "a pod that asks for a vGPU"
    ANY_POD = "any pod of an opted-in namespace"
    EPHEMERAL = "a debug container that is new on a pod with a vGPU"
    FINAL = "a pod that asks for a vGPU, after every other webhook"
    OFFLINE = "a pod in a file, which the API server would refuse by itself"
    LABELLED = "any pod with the label nvshare.com/vgpu"
    POD_UPDATE = "a change of a pod with the label nvshare.com/vgpu"
    NAMESPACE = "a Namespace"


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts that a rule may look at."""

    pod: Pod
    namespace: NamespacePolicy
    mode: Mode | None
    """The mode of containers with several vGPUs: the one that the pod names, else the one of its namespace."""
    names_mode: bool
    """The pod or its namespace names a mode, even an unknown one."""
    reduces: bool
    """A container that asks for several vGPUs gets one, since no mode is named."""
    vgpus: int
    """The number of the pod's vGPUs, after a reduction where the namespace reduces."""
    sharing: tuple[Container, ...]
    """The containers that ask for vGPUs."""
    is_debugging: bool = False
    """Debug containers are added to a running pod; no other field changes."""
    new_ephemeral: tuple[Container, ...] = ()
    with_volumes: bool = True
    """Hook and socket are written into the spec as volumes."""
    completed_as: str | None = None
    """The summary of the replica that completed the pod; None where the pod is not completed yet."""

    def expected_mode(self, container: Container) -> Mode:
        """Return the mode in which this container uses its GPUs."""
        if container.vgpus == 1 or self.reduces:
            return Mode.SINGLE
        return self._given_mode(container) or self.mode or Mode.PER_DEVICE

    def _given_mode(self, container: Container) -> Mode | None:
        """Return the mode that the completed pod got from its namespace, whose annotation may have changed since."""
        if not self.completed_as or names.MULTI_GPU in self.pod.annotations:
            return None
        said = (mode for mode in MODES_OF_SEVERAL if f" {container.name}={mode} " in self.completed_as)
        return next(said, None)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The annotations and labels of a pod."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """The facts for a rule on changes: a pod's annotations and labels, before and after."""

    before: Metadata
    after: Metadata
    asks: bool
    """The pod asks for a vGPU; no change can give it one or take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Subject]):
    """One entry of the table."""

    code: ReasonCode
    cause: str
    """A sentence; `{found}` stands for the offenders."""
    remedy: str
    find: Callable[[Subject], Offenders]
    """Return the offenders; none where the pod keeps the rule."""
    scope: Scope = Scope.VGPU_POD
    ends_the_search: bool = False
    """Where it finds an offender, the rules after it are not asked: they could not rely on their facts."""
    cel: str | None = None
    """The same as a CEL expression that yields a list of texts; None where the API server cannot decide alone."""

    def refusal(self, offenders: Offenders) -> Refusal:
        """Return the refusal with these offenders in its cause; name at most `_MAX_NAMED` of them."""
        shown = ", ".join(offenders[:_MAX_NAMED])
        if len(offenders) > _MAX_NAMED:
            shown += f" and {len(offenders) - _MAX_NAMED} more"
        return Refusal(self.code, self.cause.replace("{found}", shown), self.remedy)


PodRule = Rule[Facts]
_MAX_NAMED = 8

"""What a rule is: a code, a cause, a remedy, the Python that finds offenders and the CEL that finds the same ones.

Both sides return the offenders as short texts; the cause is the same sentence with them put in, so that Python and the
API server say the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from contract import names
from contract.grammar import Mode
from contract.reasons import ReasonCode, Refusal
from webhook.admission.namespace_policy import NamespacePolicy
from webhook.admission.pod import Container, Pod

Offenders = tuple[str, ...]
MODES_OF_SEVERAL = (Mode.GANG, Mode.PER_DEVICE)
Subject = TypeVar("Subject")


class Scope(Enum):
    """Which objects a rule looks at, in words for the documentation."""

    GATE = "a pod that asks for a vGPU, wherever it is created"
    VGPU_POD = "a pod that asks for a vGPU"
    ANY_POD = "any pod of an opted-in namespace"
    EPHEMERAL = "a debug container that is new on a pod with a vGPU"
    FINAL = "a pod that asks for a vGPU, after every other webhook"
    OFFLINE = "a pod in a file, which the API server would refuse by itself"
    POD_UPDATE = "a change of a pod"
    NAMESPACE = "a Namespace"


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What a rule may look at."""

    pod: Pod
    namespace: NamespacePolicy
    mode: Mode | None
    """The mode for containers with several vGPUs: the pod's own word, else its namespace's."""
    names_mode: bool
    """The pod or its namespace names a mode, be it one we know or not."""
    reduces: bool
    """Containers that ask for several and name no mode get one."""
    vgpus: int
    """The pod's vGPUs, after a reduction where the namespace wants one."""
    sharing: tuple[Container, ...]
    """The containers that ask for vGPUs."""
    is_debugging: bool = False
    """Debug containers come to a pod that runs; nothing else of it changes."""
    new_ephemeral: tuple[Container, ...] = ()
    with_volumes: bool = True
    """Hook and socket are written into the spec as volumes."""
    completed_as: str | None = None
    """The summary of the one that completed the pod; None while that is still to be done."""

    def expected_mode(self, container: Container) -> Mode:
        """How this container uses its GPUs."""
        if container.vgpus == 1 or self.reduces:
            return Mode.SINGLE
        return self._given_mode(container) or self.mode or Mode.PER_DEVICE

    def _given_mode(self, container: Container) -> Mode | None:
        """What the completer gave it by its namespace's word, which may have changed since."""
        if not self.completed_as or names.MULTI_GPU in self.pod.annotations:
            return None
        said = (mode for mode in MODES_OF_SEVERAL if f" {container.name}={mode} " in self.completed_as)
        return next(said, None)


@dataclass(frozen=True, slots=True)
class Change:
    """What a rule on changes may look at: a pod's annotations before and after."""

    before: dict[str, str]
    after: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Subject]):
    """One entry of the table."""

    code: ReasonCode
    cause: str
    """A sentence; `{found}` stands for the offenders."""
    remedy: str
    find: Callable[[Subject], Offenders]
    """The offenders; empty where the rule has nothing to say."""
    scope: Scope = Scope.VGPU_POD
    ends_the_search: bool = False
    """Where it finds something, the rules after it have nothing to rely upon."""
    cel: str | None = None
    """The same as a CEL expression of a list of texts; None where the API server cannot decide alone."""

    def refusal(self, offenders: Offenders) -> Refusal:
        """The refusal that these offenders earn."""
        shown = ", ".join(offenders[:_MOST_NAMED])
        if len(offenders) > _MOST_NAMED:
            shown += f" and {len(offenders) - _MOST_NAMED} more"
        return Refusal(self.code, self.cause.replace("{found}", shown), self.remedy)


PodRule = Rule[Facts]
_MOST_NAMED = 8

"""How many vGPUs a container asks for, and what else it asks for beside them.

May import the contract, `pod` and `rule`.
"""

from contract import names
from contract.reasons import ReasonCode
from webhook.fields import read_list
from webhook.pod import Container, read_amount
from webhook.rule import Facts, Offenders, Rule

OTHER_GPU_PREFIXES = ("nvidia.com/", "volcano.sh/vgpu-", "deviceclass.resource.kubernetes.io/")
"""Resources that bring a GPU past our queue."""


def _without_mode(facts: Facts) -> Offenders:
    if facts.names_mode or facts.reduces:
        return ()
    return tuple(
        f"container '{container.name}' asks {container.vgpus}" for container in facts.sharing if container.vgpus > 1
    )


def _other_resources(container: Container) -> list[str]:
    return sorted(
        name
        for name, amount in container.resources.items()
        if name.startswith(OTHER_GPU_PREFIXES) and (read_amount(amount) or 0) > 0
    )


def _mixed(facts: Facts) -> Offenders:
    resources = tuple(
        f"container '{container.name}' asks {name}"
        for container in facts.pod.containers
        for name in _other_resources(container)
    )
    has_claims = bool(read_list(facts.pod.spec, "resourceClaims"))
    return (*resources, *(("the pod has resourceClaims",) if has_claims else ()))


RULES: tuple[Rule, ...] = (
    Rule(
        code=ReasonCode("MultiGpuWithoutMode"),
        cause="More than one vGPU in a container needs a word on how it uses them: {found}.",
        remedy=f"Under metadata.annotations write either\n  {names.MULTI_GPU}: gang\n"
        "(one program over several GPUs, such as NCCL or another collective: all its GPUs take turns together) or\n"
        f"  {names.MULTI_GPU}: per-device\n"
        "(independent work on each GPU: each takes its own turns), or ask for 1.",
        find=_without_mode,
    ),
    Rule(
        code=ReasonCode("MixedGpuResources"),
        cause="A pod with nvshare.com/gpu may not ask for GPUs in another way too: {found}.",
        remedy="Remove those requests, or put the containers that need a whole GPU into a pod of their own.",
        find=_mixed,
    ),
)

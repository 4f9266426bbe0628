"""Rules on the number of vGPUs of a container, and on GPUs that the pod asks for in another way."""

from contract.sharing.vgpus import read_amount
from contract.words import names
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.json_fields import read_list
from webhook.admission.pod import Container, Pod
from webhook.admission.rule import Facts, Offenders, PodRule, Rule

OTHER_GPU_PREFIXES = ("nvidia.com/", "volcano.sh/vgpu-", "deviceclass.resource.kubernetes.io/")
"""Resources that give a GPU without a turn in our queue."""


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


def other_gpus(pod: Pod) -> Offenders:
    """Return the requests of the pod that give a GPU without a turn in our queue."""
    found = ((container, _other_resources(container)) for container in pod.containers)
    resources = tuple(f"container '{item.name}' asks {' and '.join(keys)}" for item, keys in found if keys)
    return (*resources, *(("the pod has resourceClaims",) if read_list(pod.spec, "resourceClaims") else ()))


def _mixed(facts: Facts) -> Offenders:
    return other_gpus(facts.pod)


_IS_OTHER = (
    "(" + " || ".join(f"k.startsWith({cel.text(prefix)})" for prefix in OTHER_GPU_PREFIXES) + ")"
    " && quantity(c.resources.limits[k]).isGreaterThan(quantity('0'))"
)
_LIMITS = "c.?resources.?limits.orValue({})"
OTHER_GPUS_CEL = (
    f"variables.containers.filter(c, {_LIMITS}.exists(k, {_IS_OTHER}))"
    f".map(c, \"container '\" + c.name + \"' asks \" + c.resources.limits.filter(k, {_IS_OTHER}).join(' and '))"
    " + (variables.spec.?resourceClaims.orValue([]).size() > 0 ? ['the pod has resourceClaims'] : [])"
)
NAMES_MODE_CEL = " || ".join(
    f"{cel.text(names.MULTI_GPU)} in variables.{holder}" for holder in ("annotations", "namespace_annotations")
)

RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("MultiGpuWithoutMode"),
        cause="More than one vGPU in a container needs a word on how it uses them: {found}.",
        remedy=f"Write under metadata.annotations either `{names.MULTI_GPU}: gang` (one program over several GPUs,"
        f" such as NCCL or another collective: all its GPUs take turns together) or `{names.MULTI_GPU}: per-device`"
        " (independent work on each GPU: each takes its own turns), or ask for 1.",
        find=_without_mode,
        cel=f"({NAMES_MODE_CEL}) || variables.reduces ? [] : variables.asking.filter(c, {cel.VGPUS} > 1)"
        f'.map(c, "container \'" + c.name + "\' asks " + string({cel.VGPUS}))',
    ),
    Rule(
        code=ReasonCode("MixedGpuResources"),
        cause="A pod with nvshare.com/gpu may not ask for GPUs in another way too: {found}.",
        remedy="Remove those requests, or put the containers that need a whole GPU into a pod of their own.",
        find=_mixed,
        cel=OTHER_GPUS_CEL,
    ),
)

"""Pods of a kind that cannot share a GPU: bound by hand, with NVIDIA's runtime and no GPU, of another system.

May import the contract, `fields` and `rule`.
"""

from contract.reasons import ReasonCode
from webhook.fields import read_map, read_text
from webhook.pod import Pod, read_amount
from webhook.rule import Facts, Offenders, Rule, Scope
from webhook.rules.counts import OTHER_GPU_PREFIXES

NVIDIA_RUNTIME = "nvidia"


def _bound(facts: Facts) -> Offenders:
    node = read_text(facts.pod.spec, "nodeName")
    return (f"'{node}'",) if node else ()


def _runtime_without_gpu(facts: Facts) -> Offenders:
    pod = facts.pod
    if read_text(pod.spec, "runtimeClassName") != NVIDIA_RUNTIME or pod.wants_vgpus or _wants_other_gpus(pod):
        return ()
    return (f"'{NVIDIA_RUNTIME}'",)


def _wants_other_gpus(pod: Pod) -> bool:
    if pod.spec.get("resourceClaims"):
        return True
    return any(
        name.startswith(OTHER_GPU_PREFIXES) and (read_amount(amount) or 0) > 0
        for container in pod.containers
        for name, amount in container.resources.items()
    )


def _windows(facts: Facts) -> Offenders:
    system = read_text(read_map(facts.pod.spec, "os"), "name")
    selected = read_text(read_map(facts.pod.spec, "nodeSelector"), "kubernetes.io/os")
    where = (("spec.os.name", system), ("nodeSelector kubernetes.io/os", selected))
    return tuple(f"{key} is '{value}'" for key, value in where if value == "windows")


RULES: tuple[Rule, ...] = (
    Rule(
        code=ReasonCode("NodeNameSet"),
        cause="A pod with nvshare.com/gpu may not name its node itself (spec.nodeName {found}):"
        " it would pass the scheduler, which counts the free vGPUs.",
        remedy="Remove spec.nodeName; to choose a node write spec.nodeSelector with kubernetes.io/hostname.",
        find=_bound,
    ),
    Rule(
        code=ReasonCode("NvidiaRuntimeWithoutGpu"),
        cause="The pod asks for runtimeClassName {found} but for no GPU: it could see every GPU of its node.",
        remedy="Add a limit nvshare.com/gpu: 1 to the container that uses the GPU, or remove spec.runtimeClassName.",
        scope=Scope.ANY_POD,
        find=_runtime_without_gpu,
    ),
    Rule(
        code=ReasonCode("WindowsPod"),
        cause="GPUs are shared on Linux nodes only, and this is a Windows pod: {found}.",
        remedy="Remove nvshare.com/gpu from its containers, or run the pod on Linux.",
        find=_windows,
    ),
)

"""Rules on pods that cannot share a GPU: bound by hand, with NVIDIA's runtime but no GPU, or for Windows."""

from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.json_fields import read_map, read_text
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope
from webhook.admission.rules.counts import OTHER_GPUS_CEL, other_gpus

NVIDIA_RUNTIMES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
"""The runtime classes that NVIDIA's operator makes."""


def _bound(facts: Facts) -> Offenders:
    node = read_text(facts.pod.spec, "nodeName")
    return (f"'{node}'",) if node else ()


def _runtime_without_gpu(facts: Facts) -> Offenders:
    runtime = read_text(facts.pod.spec, "runtimeClassName")
    is_idle = runtime in NVIDIA_RUNTIMES and not facts.sharing and not other_gpus(facts.pod)
    return (f"'{runtime}'",) if is_idle else ()


_SYSTEMS = (("spec.os.name", "os", "name"), ("nodeSelector kubernetes.io/os", "nodeSelector", "kubernetes.io/os"))


def _windows(facts: Facts) -> Offenders:
    found = ((shown, read_text(read_map(facts.pod.spec, holder), key)) for shown, holder, key in _SYSTEMS)
    return tuple(f"{shown} is 'windows'" for shown, value in found if value == "windows")


def _windows_cel() -> str:
    return " + ".join(
        cel.either(
            f"variables.spec.?{holder}[?{cel.text(key)}].orValue('') == 'windows'"
            if "." in key
            else f"variables.spec.?{holder}.?{key}.orValue('') == 'windows'",
            f"\"{shown} is 'windows'\"",
        )
        for shown, holder, key in _SYSTEMS
    )


RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("NodeNameSet"),
        cause="A pod with nvshare.com/gpu may not name its node itself (spec.nodeName {found}):"
        " it would pass the scheduler, which counts the free vGPUs.",
        remedy="Remove spec.nodeName; to choose a node write spec.nodeSelector with kubernetes.io/hostname.",
        find=_bound,
        cel=cel.either(
            "variables.spec.?nodeName.orValue('') != ''", "\"'\" + variables.spec.?nodeName.orValue('') + \"'\""
        ),
    ),
    Rule(
        code=ReasonCode("NvidiaRuntimeWithoutGpu"),
        cause="The pod asks for runtimeClassName {found} but for no GPU: it could see every GPU of its node.",
        remedy="Add a limit nvshare.com/gpu: 1 to the container that uses the GPU, or remove spec.runtimeClassName.",
        scope=Scope.ANY_POD,
        find=_runtime_without_gpu,
        cel=f"!(variables.spec.?runtimeClassName.orValue('') in {cel.texts(NVIDIA_RUNTIMES)})"
        f" || variables.asking.size() > 0 || ({OTHER_GPUS_CEL}).size() > 0"
        " ? [] : [\"'\" + variables.spec.?runtimeClassName.orValue('') + \"'\"]",
    ),
    Rule(
        code=ReasonCode("WindowsPod"),
        cause="GPUs are shared on Linux nodes only, and this is a Windows pod: {found}.",
        remedy="Remove nvshare.com/gpu from its containers, or run the pod on Linux.",
        find=_windows,
        cel=_windows_cel(),
    ),
)

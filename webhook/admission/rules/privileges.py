"""Rules on privileges with which a pod that shares a GPU could escape its turn, its memory cap or its container.

A namespace may grant each privilege by name (`nvshare.com/allow`).
"""

from contract.words import names
from contract.words.grammar import Exemption
from contract.words.reasons import ReasonCode
from webhook.admission import cel
from webhook.admission.json_fields import read_flag
from webhook.admission.rule import Facts, Offenders, PodRule, Rule, Scope

STRONG_CAPABILITIES = ("SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "DAC_READ_SEARCH", "BPF", "ALL")
"""Each leads out of the container: kernel modules, ports of the machine, files of the node by handle, kernel memory."""
_NAMED = f"{', '.join(STRONG_CAPABILITIES[:-1])} or {STRONG_CAPABILITIES[-1]}"


def _grant(exemption: Exemption) -> str:
    return f"or ask an administrator to add {exemption.value} to the Namespace's annotation {names.ALLOW}."


def _privileged(facts: Facts) -> Offenders:
    if facts.namespace.allows(Exemption.PRIVILEGED):
        return ()
    return tuple(f"container '{item.name}'" for item in facts.pod.containers if item.privileged)


def _strong_capabilities(facts: Facts) -> Offenders:
    if facts.namespace.allows(Exemption.PRIVILEGED):
        return ()
    return tuple(
        f"container '{item.name}'"
        for item in facts.pod.containers
        if any(name in STRONG_CAPABILITIES for name in item.capabilities)
    )


def _host_pid(facts: Facts) -> Offenders:
    has = read_flag(facts.pod.spec, "hostPID") and not facts.namespace.allows(Exemption.HOST_PID)
    return ("spec.hostPID",) if has else ()


def _host_ipc(facts: Facts) -> Offenders:
    has = read_flag(facts.pod.spec, "hostIPC") and not facts.namespace.allows(Exemption.HOST_IPC)
    return ("spec.hostIPC",) if has else ()


def _ephemeral_privileged(facts: Facts) -> Offenders:
    if facts.namespace.allows(Exemption.PRIVILEGED):
        return ()
    return tuple(
        f"container '{item.name}'"
        for item in facts.new_ephemeral
        if item.privileged or any(name in STRONG_CAPABILITIES for name in item.capabilities)
    )


_QUOTED = '"container \'" + c.name + "\'"'
_IS_PRIVILEGED = "c.?securityContext.?privileged.orValue(false)"
_STRONG = cel.texts((*STRONG_CAPABILITIES, *(f"CAP_{name}" for name in STRONG_CAPABILITIES)))
_IS_STRONG = f"c.?securityContext.?capabilities.?add.orValue([]).exists(k, k.upperAscii() in {_STRONG})"


def _unless(exemption: Exemption, found: str) -> str:
    return f"{cel.text(exemption)} in variables.allow ? [] : {found}"


def _containers_cel(containers: str, condition: str) -> str:
    return _unless(Exemption.PRIVILEGED, f"{containers}.filter(c, {condition}).map(c, {_QUOTED})")


def _host_cel(field: str, exemption: Exemption) -> str:
    return _unless(exemption, cel.either(f"variables.spec.?{field}.orValue(false)", f"'spec.{field}'"))


RULES: tuple[PodRule, ...] = (
    Rule(
        code=ReasonCode("Privileged"),
        cause="A pod with a vGPU may not have a privileged container: {found}.",
        remedy="Remove securityContext.privileged, " + _grant(Exemption.PRIVILEGED),
        find=_privileged,
        cel=_containers_cel("variables.containers", _IS_PRIVILEGED),
    ),
    Rule(
        code=ReasonCode("StrongCapability"),
        cause=f"A pod with a vGPU may not add the capability {_NAMED}: {{found}}.",
        remedy="Remove it from securityContext.capabilities.add, " + _grant(Exemption.PRIVILEGED),
        find=_strong_capabilities,
        cel=_containers_cel("variables.containers", _IS_STRONG),
    ),
    Rule(
        code=ReasonCode("HostPid"),
        cause="A pod with a vGPU may not see the processes of its node ({found}).",
        remedy="Remove spec.hostPID, " + _grant(Exemption.HOST_PID),
        find=_host_pid,
        cel=_host_cel("hostPID", Exemption.HOST_PID),
    ),
    Rule(
        code=ReasonCode("HostIpc"),
        cause="A pod with a vGPU may not share memory with its node ({found}).",
        remedy="Remove spec.hostIPC, " + _grant(Exemption.HOST_IPC),
        find=_host_ipc,
        cel=_host_cel("hostIPC", Exemption.HOST_IPC),
    ),
    Rule(
        code=ReasonCode("PrivilegedDebugContainer"),
        cause=f"A debug container on a pod with a vGPU may not be privileged or add {_NAMED}: {{found}}.",
        remedy="Debug with the profile general, baseline or restricted (kubectl debug --profile=general), "
        + _grant(Exemption.PRIVILEGED),
        scope=Scope.EPHEMERAL,
        find=_ephemeral_privileged,
        cel=_containers_cel("variables.new_debug", f"{_IS_PRIVILEGED} || {_IS_STRONG}"),
    ),
)

"""Checks of the GPUs: NVML, the cards and their modes, the device nodes, other plugins that offer the same cards."""

from collections.abc import Iterable, Iterator

from contract.sharing.inventory import Gpu
from deviceplugin.core.doctor.facts import DeviceNode, Facts
from deviceplugin.core.doctor.findings import Finding, Verdict

CONTROL_NODES = ("nvidiactl", "nvidia-uvm")
"""CUDA does not start without these two."""
_BAD_MODES = ("Exclusive_Process", "Exclusive_Thread", "Prohibited")
_SEE_NODE = "Run the doctor Job (manifests/doctor), which sees the node."


def check_nvml(facts: Facts) -> Iterator[Finding]:
    """Judge whether NVML answers; its sentence holds the fix."""
    verdict = Verdict.OK if facts.nvml.answers else Verdict.MISSING
    yield Finding("nvml", verdict, facts.nvml.told)
    if facts.nvml.answers and not facts.nvml.gpus:
        yield Finding("gpu", Verdict.MISSING, "NVML finds no GPU.", "See the node's dmesg for lines of NVRM.")


def check_gpus(facts: Facts) -> Iterator[Finding]:
    """Judge each card: whether it is whole, and lets several processes in."""
    for gpu in facts.nvml.gpus:
        name, mode = f"{gpu.uuid} ({gpu.model})", facts.nvml.compute_modes.get(gpu.uuid, "")
        place = "of unknown number" if gpu.minor is None else f"at /dev/nvidia{gpu.minor}"
        if gpu.mig:
            yield Finding(
                "gpu",
                Verdict.WRONG,
                f"{name} is in MIG mode, and is not shared.",
                f"Switch MIG off (nvidia-smi -i {gpu.uuid} -mig 0), or leave the card to NVIDIA's plugin.",
            )
        elif mode in _BAD_MODES:
            yield Finding(
                "gpu",
                Verdict.WRONG,
                f"{name} is in compute mode {mode}, so it takes one process at most.",
                f"nvidia-smi -i {gpu.uuid} -c DEFAULT",
            )
        else:
            yield Finding("gpu", Verdict.OK, f"{name} is whole, {place}.")


def check_device_nodes(facts: Facts) -> Iterator[Finding]:
    """Judge the device nodes that a container needs: on the node, where they can be seen there."""
    seen = facts.here if facts.on_node is None else facts.on_node
    states = [(name, seen.get(name, DeviceNode.ABSENT)) for name in names_needed(facts.nvml.gpus)]
    bad = [(name, state) for name, state in states if state is not DeviceNode.THERE]
    if not bad:
        yield Finding("device-nodes", Verdict.OK, "There are " + ", ".join(f"/dev/{name}" for name, _ in states) + ".")
    for name, state in bad:
        yield _bad_node(name, state, facts)


def _bad_node(name: str, state: DeviceNode, facts: Facts) -> Finding:
    if state is DeviceNode.OTHER:
        fix = f"Remove it (rm /dev/{name}) and make it again: nvidia-modprobe -u -c 0"
        return Finding("device-nodes", Verdict.WRONG, f"/dev/{name} is {state}.", fix)
    if facts.on_node is None:
        return Finding("device-nodes", Verdict.UNSEEN, f"/dev/{name} is not in this container.", _SEE_NODE)
    number = name.removeprefix("nvidia")
    command = (
        "nvidia-modprobe -u" if name == "nvidia-uvm" else f"nvidia-modprobe -c {number if number.isdigit() else 0}"
    )
    fix = f"{command} on the node; nvidia-persistenced makes it at each boot."
    return Finding("device-nodes", Verdict.MISSING, f"/dev/{name} is not on the node.", fix)


def names_needed(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Return the names of the device nodes that containers with these cards need."""
    return (*CONTROL_NODES, *(f"nvidia{gpu.minor}" for gpu in gpus if gpu.minor is not None))


def check_foreign(facts: Facts) -> Iterator[Finding]:
    """Judge whether another plugin offers our cards."""
    foreign = facts.kubelet.foreign
    if foreign is None:
        return  # the check of the kubelet says so
    ours = {gpu.uuid for gpu in facts.nvml.gpus}
    both = sorted((uuid, resource) for uuid, resource in foreign.items() if uuid in ours)
    for uuid, resource in both:
        yield Finding(
            "other-plugins",
            Verdict.WRONG,
            f"{uuid} is offered as {resource} by another device plugin, so it is not shared.",
            "Take that plugin from this node (GPU Operator: label nvidia.com/gpu.deploy.device-plugin=false), "
            "or exclude the card here with --exclude.",
        )
    if not both:
        yield Finding("other-plugins", Verdict.OK, "No other device plugin offers these cards.")

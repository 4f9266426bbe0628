"""Checks of the node and of our parts on it: kernel, architecture, hook, folders, kubelet, slots."""

from collections.abc import Iterator

from contract.words import names
from deviceplugin.core import node_limits
from deviceplugin.core.doctor.facts import Facts
from deviceplugin.core.doctor.findings import Finding, Verdict

_START_PLUGIN = "The plugin writes it when it starts: see its log."


def check_kernel(facts: Facts) -> Iterator[Finding]:
    """Judge kernel and architecture."""
    why = node_limits.why_kernel(facts.kind)
    yield Finding("kernel", Verdict.WRONG if why else Verdict.OK, why or f"Linux {facts.kind.kernel} holds the gate.")
    why = node_limits.why_machine(facts.kind)
    yield Finding(
        "architecture", Verdict.WRONG if why else Verdict.OK, why or f"There is a hook for {facts.kind.machine}."
    )


def check_hook(facts: Facts) -> Iterator[Finding]:
    """Judge the hook in the image and on the node."""
    ours = facts.ours
    if ours.image_hook is None:
        yield Finding("hook", Verdict.MISSING, "The image has no hook.", "Use our image, or name it with --hook-file.")
    head = ours.hook if ours.hook is not None else ours.image_hook
    if ours.hook is None:
        yield Finding("hook", Verdict.MISSING, f"There is no hook below {ours.root} on the node.", _START_PLUGIN)
    elif not ours.names_hook:
        yield Finding("hook", Verdict.MISSING, f"The file ld.so.preload below {ours.root} is missing.", _START_PLUGIN)
    if head is None:
        return
    why = node_limits.why_hook(facts.kind, head)
    if why:
        yield Finding("hook", Verdict.WRONG, why)
    elif not node_limits.machine_of(head):
        yield Finding("hook", Verdict.WRONG, "The hook is no library.", "Build the image again, and start the plugin.")
    elif ours.hook is not None and ours.names_hook:
        yield Finding("hook", Verdict.OK, f"The hook for {node_limits.machine_of(head)} is below {ours.root}.")


def check_folders(facts: Facts) -> Iterator[Finding]:
    """Judge whether the folders that the plugin writes can be written."""
    ours = facts.ours
    for folder, is_writable in ((ours.root, ours.root_is_writable), (ours.cdi_folder, ours.cdi_is_writable)):
        if is_writable:
            yield Finding("folders", Verdict.OK, f"{folder} can be written.")
        else:
            fix = "Mount it writable into the plugin, as manifests/base does, and run as root."
            yield Finding("folders", Verdict.MISSING, f"{folder} is not there, or cannot be written.", fix)


def check_scheduler(facts: Facts) -> Iterator[Finding]:
    """Judge whether the scheduler answers."""
    socket = facts.ours.control_socket
    if facts.ours.scheduler_answers:
        yield Finding("scheduler", Verdict.OK, f"The scheduler answers at {socket}.")
    else:
        fix = "See kubectl -n nvshare-system logs of its pod on this node; until it answers, containers wait."
        yield Finding("scheduler", Verdict.MISSING, f"No scheduler answers at {socket}.", fix)


def check_kubelet(facts: Facts) -> Iterator[Finding]:
    """Judge the kubelet's sockets."""
    kubelet = facts.kubelet
    if kubelet.registers:
        version = f" {facts.cluster.kubelet}" if facts.cluster.kubelet else ""
        yield Finding("kubelet", Verdict.OK, f"The kubelet{version} takes device plugins at {kubelet.folder}.")
    else:
        yield Finding(
            "kubelet",
            Verdict.MISSING,
            f"There is no kubelet.sock in {kubelet.folder}.",
            "Mount the kubelet's folder; where its --root-dir is another one, name it with --kubelet-folder.",
        )
    if kubelet.pod_resources:
        yield Finding("kubelet", Verdict.OK, "pod-resources answers.")
    else:
        fix = "Mount /var/lib/kubelet/pod-resources, or name its socket with --pod-resources-socket."
        yield Finding("kubelet", Verdict.MISSING, "pod-resources does not answer.", fix)


def check_slots(facts: Facts) -> Iterator[Finding]:
    """Judge whether the Node offers our resource."""
    slots = facts.cluster.slots
    if slots is None:
        yield Finding(
            "slots",
            Verdict.UNSEEN,
            f"The Node cannot be read: {facts.cluster.trouble}",
            "Give --node-name, and run in a pod of ours or with a kubeconfig.",
        )
    elif slots:
        yield Finding("slots", Verdict.OK, f"The Node offers {slots} {names.RESOURCE}.")
    else:
        fix = "It registers when NVML answers and the node is prepared: the other lines say what is missing."
        yield Finding("slots", Verdict.MISSING, f"The Node offers no {names.RESOURCE}.", fix)

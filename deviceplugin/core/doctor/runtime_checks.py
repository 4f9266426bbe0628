"""Checks of how devices reach containers: the container runtime, CDI in it, CDI specs, runtime classes.

The one rule that spans them: pods get their cards by a CDI source, or, without one, by NVIDIA's runtime as the default
runtime.  With neither a container would start without a GPU.  So where the plugin sees that, pods wait.
"""

from collections.abc import Iterator

from contract.words.node import DevicesFrom
from deviceplugin.core.doctor.facts import Facts, RuntimeFacts
from deviceplugin.core.doctor.findings import Finding, Verdict

NVIDIA_RUNTIMES = ("nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-container-runtime")
"""The names that NVIDIA's tools, and AKS, give to handlers and runtime classes."""
_GENERATE = "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml"


def check_runtime(facts: Facts) -> Iterator[Finding]:
    """Judge whether kubelet and runtime pass CDI devices on."""
    runtime = facts.runtime
    if not runtime.name:
        yield Finding("runtime", Verdict.UNSEEN, f"The runtime's version cannot be read: {facts.cluster.trouble}")
        return
    name = f"{runtime.name} {runtime.version}"
    if runtime.enable_cdi is False:
        fix = "Set enable_cdi = true in its section of the CRI plugin, and restart it."
        yield Finding("runtime", Verdict.WRONG, f"CDI is switched off in {runtime.config_file}.", fix)
    elif not runtime.takes_cdi:
        yield Finding(
            "runtime",
            Verdict.WRONG,
            f"{name} with kubelet {facts.cluster.kubelet} passes no CDI devices on by itself, so mounts are used, "
            "which hold less (docs/threat-model.md).",
            "Upgrade to containerd 2.0 or CRI-O 1.23 and kubelet 1.29; with containerd 1.7 and enable_cdi = true "
            "set --inject=cdi.",
        )
    else:
        yield Finding("runtime", Verdict.OK, f"{name} with kubelet {facts.cluster.kubelet} passes CDI devices on.")


def check_runtime_config(facts: Facts) -> Iterator[Finding]:
    """Judge the runtime's configuration, where it can be seen."""
    runtime = facts.runtime
    if runtime.config_error:
        yield Finding("runtime-config", Verdict.WRONG, runtime.config_error, "Correct the file.")
    elif not runtime.config_file:
        where = "at none of the usual places" if facts.sees_node else "not to be seen from this container"
        fix = "" if facts.sees_node else "Run the doctor Job (manifests/doctor), which sees the node."
        yield Finding("runtime-config", Verdict.UNSEEN, f"The runtime's configuration is {where}.", fix)
    elif runtime.cdi_folders is not None and not _reads(runtime.cdi_folders, facts.ours.cdi_folder):
        yield Finding(
            "runtime-config",
            Verdict.WRONG,
            f"{runtime.config_file} reads CDI specs from {', '.join(runtime.cdi_folders) or 'nowhere'}, "
            f"and the plugin writes into {facts.ours.cdi_folder}.",
            "Add the folder to cdi_spec_dirs, or name another with --cdi-folder (and mount it).",
        )
    else:
        handlers = ", ".join(runtime.handlers) or "none named"
        default = runtime.default_handler or "runc"
        text = f"{runtime.config_file}: the default runtime is {default}; handlers: {handlers}."
        yield Finding("runtime-config", Verdict.OK, text)


def _reads(folders: tuple[str, ...], ours: str) -> bool:
    def real(path: str) -> str:
        return path.rstrip("/").replace("/var/run/", "/run/", 1) if path.startswith("/var/run/") else path.rstrip("/")

    return real(ours) in {real(folder) for folder in folders}


def check_cdi_specs(facts: Facts) -> Iterator[Finding]:
    """Judge each CDI spec of NVIDIA's."""
    for file, why in facts.cdi.malformed.items():
        yield Finding("cdi-specs", Verdict.WRONG, f"{file} cannot be used: {why}.", f"Write it again: {_GENERATE}")
    for file, (kind, devices) in facts.cdi.specs.items():
        yield Finding("cdi-specs", Verdict.OK, f"{file} is of kind {kind} and has {', '.join(devices) or 'no device'}.")
    if not facts.cdi.specs and not facts.cdi.malformed:
        folders = ", ".join(f"{name}{'' if is_there else ' (absent)'}" for name, is_there in facts.cdi.folders.items())
        yield Finding("cdi-specs", Verdict.OK, f"There is no CDI spec of NVIDIA's in {folders}.")
    for folder, is_there in facts.cdi.folders.items():
        if not is_there and not facts.sees_node:
            fix = "Mount it, as manifests/base does."
            yield Finding("cdi-specs", Verdict.UNSEEN, f"{folder} is not in this container.", fix)


def check_device_source(facts: Facts) -> Iterator[Finding]:
    """Judge where containers' device nodes and driver files would come from."""
    cdi, runtime = facts.cdi, facts.runtime
    text = cdi.told
    if cdi.is_trouble:
        yield Finding("device-source", Verdict.WRONG, text)  # its sentence says what to do
    elif cdi.source != DevicesFrom.ENVIRONMENT:
        yield Finding("device-source", Verdict.OK, text)
    elif not runtime.config_file:
        fix = f"Make sure that NVIDIA's runtime is the default, or write a spec: {_GENERATE}"
        yield Finding("device-source", Verdict.UNSEEN, text, fix)
    elif why := why_no_environment(runtime):
        fix = f"Write a spec: {_GENERATE} (toolkit 1.18 and newer do so by themselves: nvidia-cdi-refresh.service)"
        yield Finding("device-source", Verdict.WRONG, f"{text} {why}", fix)
    else:
        yield Finding("device-source", Verdict.OK, text)


def why_no_environment(runtime: RuntimeFacts) -> str:
    """Return why nobody would read the variable of our containers; empty where NVIDIA's runtime does."""
    if runtime.default_handler not in NVIDIA_RUNTIMES:
        return f"The default runtime is {runtime.default_handler or 'runc'}, so containers get no GPU."
    toolkit = runtime.toolkit
    if toolkit is not None and not toolkit.takes_variable:
        return f"{toolkit.file} makes it ignore NVIDIA_VISIBLE_DEVICES, so containers get no GPU."
    if toolkit is not None and toolkit.mode == "cdi":
        return f"{toolkit.file} sets mode cdi, which needs a spec, so containers do not start."
    return ""


def check_runtime_classes(facts: Facts) -> Iterator[Finding]:
    """Tell which runtime classes of NVIDIA's there are: they matter for our daemons only."""
    classes = facts.cluster.runtime_classes
    if classes is None:
        fix = "Run it in a pod of ours, whose account may list runtime classes."
        yield Finding("runtime-classes", Verdict.UNSEEN, "The runtime classes cannot be listed.", fix)
        return
    ours = sorted(name for name, handler in classes.items() if {name, handler} & set(NVIDIA_RUNTIMES))
    text = f"There are the classes {', '.join(ours)}." if ours else "There is no RuntimeClass of NVIDIA's."
    where = "component gpu-operator" if "nvidia" in classes else "component driver-root"
    fix = "" if facts.nvml.answers else f"Switch on the {where} (docs/install.md)."
    yield Finding("runtime-classes", Verdict.OK, text, fix)

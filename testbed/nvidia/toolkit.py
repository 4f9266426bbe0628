"""NVIDIA's container toolkit on a node: installed, configured and run by NVIDIA's own programs.

The rule: we write no configuration of NVIDIA's by hand.  A host's packages are `nvidia-ctk`, the GPU operator's daemon
is `nvidia-ctk-installer` with the variables that the operator gives it.
Only `nvidia-container-cli` is a stand-in of ours: it is in C and not in the Go module proxy (`container_cli.py`).
"""

import sys
from pathlib import Path

from testbed.cluster import pins
from testbed.cluster.cache import Say
from testbed.cluster.kubernetes.containerd import CONFIGURATION
from testbed.cluster.kubernetes.node import Node
from testbed.cluster.machine.processes import Process, wait_until
from testbed.cluster.shell import succeeds
from testbed.cluster.supplies.build import programs
from testbed.nvidia.kinds import OPERATOR_NAMESPACE, Installed, NodeKind, Spec

CONFIG = "/etc/nvidia-container-runtime/config.toml"
RUNTIME_LOG = "/run/nvidia-container-runtime.log"
_DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
_MODULES = "/run/nvidia-layer/modules"
_ARTIFACTS = "/run/nvidia-artifacts"
_OPERATOR_FOLDER = "/usr/local/nvidia"
_STAND_IN = Path(__file__).with_name("container_cli.py")
_CLI = "nvidia-container-cli"
_FILES = {
    Spec.GPU: "/run/cdi/nvidia.yaml",
    Spec.DEVICE_PLUGIN: "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
    Spec.MANAGEMENT: "/run/cdi/management.nvidia.com-gpu.yaml",
}


def install(node: Node, kind: NodeKind, *, say: Say) -> Process | None:
    """Install and configure; return the program that must go on running, if there is one."""
    if kind.installed is Installed.NOTHING:
        return None
    folder = programs(pins.TOOLKIT_LEGACY if kind.installed is Installed.OLD else pins.TOOLKIT, say=say)
    if kind.is_operator:
        daemon = _install_as_operator(node, kind, folder)
    else:
        daemon = None
        _install_on_host(node, kind, folder)
    for spec in kind.specs:
        if spec is not Spec.MANAGEMENT:  # the operator's installer has written that one
            generate(node, kind, spec)
    return daemon


def generate(node: Node, kind: NodeKind, spec: Spec) -> None:
    """Have `nvidia-ctk` write a spec, as packages, operator and NVIDIA's device plugin do."""
    toolkit = f"{_OPERATOR_FOLDER}/toolkit" if kind.is_operator else "/usr/bin"
    vendor, _, device_class = spec.value.partition("/")
    command = [f"{toolkit}/nvidia-ctk", "--quiet", "cdi", "generate", f"--output={spec_file(kind, spec)}"]
    command += [f"--vendor={vendor}", f"--class={device_class}", f"--nvidia-cdi-hook-path={toolkit}/nvidia-cdi-hook"]
    command += [f"--driver-root={kind.driver_root}", "--dev-root=/"]
    node.call(*command, *(["--device-name-strategy=uuid"] if spec is Spec.DEVICE_PLUGIN else []))


def spec_file(kind: NodeKind, spec: Spec) -> str:
    """Return where the spec lies: packages refresh it below /run, the guide for mode cdi writes it below /etc."""
    return "/etc/cdi/nvidia.yaml" if spec is Spec.GPU and kind.mode == "cdi" else _FILES[spec]


def remove(node: Node) -> None:
    """Remove the configuration and the specs of a former kind; its programs go with the driver's layer."""
    for folder, pattern in (("/etc/cdi", "*"), ("/run/cdi", "*nvidia*"), ("/etc/nvidia-container-runtime", "*")):
        for path in node.path(folder).glob(pattern):
            path.unlink()
    node.path(_DROP_IN).unlink(missing_ok=True)
    node.containerd.configure()


def _install_on_host(node: Node, kind: NodeKind, folder: Path) -> None:
    """Do what the packages and the install guide do."""
    node.call("cp", "-r", f"{folder}/.", "/usr/bin/")
    _put_stand_in(node, Path("/usr/bin"))
    settings = {
        "nvidia-container-runtime.mode": kind.mode,
        "nvidia-container-runtime.debug": RUNTIME_LOG,
        "accept-nvidia-visible-devices-envvar-when-unprivileged": str(kind.takes_variable).lower(),
    }
    setting = [f"--set={name}={value}" for name, value in settings.items()]
    node.call("nvidia-ctk", "--quiet", "config", *setting, f"--output={CONFIG}")
    command = ["nvidia-ctk", "--quiet", "runtime", "configure", "--runtime=containerd", f"--config={CONFIGURATION}"]
    command += ["--cdi.enabled"] if kind.specs else []
    command += ["--set-as-default"] if kind.is_default else []
    # 1.17 has no drop-in files
    command += [] if kind.installed is Installed.OLD else [f"--drop-in-config={_DROP_IN}"]
    node.call(*command)


def _install_as_operator(node: Node, kind: NodeKind, folder: Path) -> Process | None:
    """Run the operator's installer with the variables of its DaemonSet; with NRI it goes on as containerd's plugin."""
    artifacts = node.path(_ARTIFACTS)
    for part in ("usr/bin", "usr/lib64"):
        (artifacts / part).mkdir(parents=True, exist_ok=True)
    node.call("cp", "-r", f"{folder}/.", f"{_ARTIFACTS}/usr/bin/")
    _put_stand_in(node, Path(_ARTIFACTS) / "usr/bin")
    for library in ("libnvidia-container.so.1", "libnvidia-container-go.so.1"):
        (artifacts / "usr/lib64" / library).touch()  # only the command line tool would load them
    variables = {
        "ROOT": _OPERATOR_FOLDER,
        "TOOLKIT_SOURCE_ROOT": _ARTIFACTS,
        "TOOLKIT_PID_FILE": "/run/nvidia/toolkit/toolkit.pid",
        "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": Spec.MANAGEMENT.value,
        "NVIDIA_CONTAINER_RUNTIME_MODE": kind.mode,
        "NVIDIA_CONTAINER_RUNTIME_DEBUG": RUNTIME_LOG,
        "NVIDIA_RUNTIME_SET_AS_DEFAULT": str(kind.is_default).lower(),
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED": str(kind.takes_variable).lower(),
        "CDI_ENABLED": "true",
        "NVIDIA_DRIVER_ROOT": kind.driver_root,
        "DRIVER_ROOT_CTR_PATH": kind.driver_root,
        "NVIDIA_DEV_ROOT": "/",
        "DEV_ROOT_CTR_PATH": "/",
        "RUNTIME": "containerd",
        "RUNTIME_CONFIG": CONFIGURATION,
        "RUNTIME_DROP_IN_CONFIG": _DROP_IN,
        "RUNTIME_CONFIG_SOURCES": "file",
        "RUNTIME_RESTART_MODE": "none",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    with_nri = kind.installed is Installed.NRI
    variables |= (
        {"ENABLE_NRI_PLUGIN": "true", "NRI_NAMESPACE": OPERATOR_NAMESPACE} if with_nri else {"NO_DAEMON": "true"}
    )
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), str(folder / "nvidia-ctk-installer")]
    if not with_nri:
        node.call(*command)
        _point_to_modules(node)
        return None
    daemon = node.sandbox.process(f"{node.name}-nvidia-nri", command)
    daemon.start()
    wait_until(lambda: _is_installed(node), what="the operator's programs are there", seconds=30, needs=(daemon,))
    return daemon


def _is_installed(node: Node) -> bool:
    """Return whether the installer, which goes on in the background, has put the programs there."""
    return succeeds(*node.sandbox.command(f"{_OPERATOR_FOLDER}/toolkit/nvidia-ctk", "--version"))


def _point_to_modules(node: Node) -> None:
    """Let the operator's wrappers read our list of modules where the kernel has none: they look for `nvidia` in it."""
    wrappers = " ".join(f"nvidia-container-runtime{suffix}" for suffix in ("", ".cdi", ".legacy"))
    edit = f"test -e /proc/modules || sed -i s:/proc/modules:{_MODULES}: {wrappers}"
    node.call("sh", "-c", f"cd {_OPERATOR_FOLDER}/toolkit && {{ {edit}; }}")


def wait_for(node: Node, kind: NodeKind, daemon: Process | None) -> None:
    """Wait until what goes on running has done its part."""
    if daemon is not None:
        spec = node.path(_FILES[Spec.MANAGEMENT])
        wait_until(spec.exists, what=f"{kind.name}: the operator's spec is there", seconds=30, needs=(daemon,))


def _put_stand_in(node: Node, folder: Path) -> None:
    """Install our `nvidia-container-cli`; it must know where the driver's state lies."""
    text = f"#!{sys.executable} -IS\n{_STAND_IN.read_text()}"
    node.call("sh", "-c", f"cat > {folder / _CLI} && chmod 755 {folder / _CLI}", stdin=text)


def describe(node: Node, kind: NodeKind) -> str:
    """Return the version that NVIDIA's own program says."""
    if kind.installed is Installed.NOTHING:
        return "none"
    path = f"{_OPERATOR_FOLDER}/toolkit/nvidia-ctk" if kind.is_operator else "nvidia-ctk"
    return node.call(path, "--version").splitlines()[0].rpartition(" ")[2]

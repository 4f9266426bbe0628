"""containerd of a node: its configuration, and what is asked of it from outside (importing images)."""

import shutil
from pathlib import Path

from testbed.cluster import pins
from testbed.cluster.cache import Say
from testbed.cluster.machine.processes import Process, wait_until
from testbed.cluster.machine.sandbox import Sandbox, enter
from testbed.cluster.shell import run_command, succeeds
from testbed.cluster.supplies import archives
from testbed.cluster.supplies.build import programs

SOCKET = "/run/containerd/containerd.sock"
CONFIGURATION = "/etc/containerd/config.toml"
CDI_FOLDER = "/var/run/cdi"
_SYS_RESOURCE = 24  # the capability's number


def configuration(*, may_raise_oom_score: bool) -> str:
    """Return the TOML of containerd 2.x (`version = 3`)."""
    return f"""
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.cri.v1.runtime"]
  # without CAP_SYS_RESOURCE runc may not lower a score: every sandbox would die with "can't get final child's PID"
  restrict_oom_score_adj = {"false" if may_raise_oom_score else "true"}
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "{CDI_FOLDER}"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pins.PAUSE_IMAGE}"
"""


def may_raise_oom_score(status: str) -> bool:
    """Return whether /proc/self/status grants CAP_SYS_RESOURCE."""
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> _SYS_RESOURCE & 1)


def import_image(init_pid: int, archive: Path) -> None:
    """Import into the namespace that the kubelet uses, on the node with this first process."""
    _ctr(init_pid, "images", "import", str(archive))


def _ctr(init_pid: int, *arguments: str) -> str:
    ctr = programs(pins.RUNTIME, say=lambda _: None) / "ctr"
    return run_command(*enter(init_pid, str(ctr), "--address", SOCKET, "--namespace", "k8s.io", *arguments))


class Containerd:
    """A node's container runtime."""

    def __init__(self, sandbox: Sandbox, *, node: str, say: Say) -> None:
        self._sandbox = sandbox
        self._programs = programs(pins.RUNTIME, say=say)
        self.configure()
        command = [str(self._programs / "containerd"), "--config", CONFIGURATION]
        # the shim is found through PATH
        self.process: Process = sandbox.process(f"{node}-containerd", command, path=[str(self._programs)])

    def configure(self) -> None:
        """Write the configuration that every node begins with; others may add their own runtimes to it."""
        may = may_raise_oom_score(Path("/proc/self/status").read_text())
        self._sandbox.path(CONFIGURATION).write_text(configuration(may_raise_oom_score=may))

    def restart(self) -> None:
        """Start again with the configuration as it is now; containers go on meanwhile."""
        self.process.restart()
        command = enter(self._sandbox.init_pid, str(self._programs / "ctr"), "--address", SOCKET, "version")
        wait_until(lambda: succeeds(*command), what="containerd answers", seconds=60, needs=(self.process,))

    def start(self) -> None:
        self.process.start()
        socket = self._sandbox.path(SOCKET)
        wait_until(socket.exists, what="containerd listens", seconds=60, needs=(self.process,))
        self._import_small_images()

    def import_image(self, archive: Path) -> None:
        """Import an archive (docker or OCI) at a path of the node: the machine's, except in the node's own folders."""
        import_image(self._sandbox.init_pid, archive)

    def _import_small_images(self) -> None:
        busybox = Path(shutil.which("busybox") or "/bin/busybox")
        folder = self._sandbox.path("/run/images")
        folder.mkdir(exist_ok=True)
        applets = run_command(str(busybox), "--list").split()
        archives.write_pause(folder / "pause.tar", name=pins.PAUSE_IMAGE, busybox=busybox)
        archives.write_busybox(folder / "busybox.tar", name=pins.BUSYBOX_IMAGE, busybox=busybox, applets=applets)
        for archive in ("pause.tar", "busybox.tar"):
            self.import_image(Path("/run/images") / archive)

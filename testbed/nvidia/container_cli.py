"""A stand-in for `nvidia-container-cli configure`: the part of libnvidia-container that NVIDIA's legacy hook calls.

The real one is written in C and not in the Go module proxy.  This one does what the hook asked and no more: the device
nodes of the named cards and the driver's libraries in the container, and their device cgroup (version 1).
It imports nothing of ours: it is run on a node, by NVIDIA's hook, before the container changes its root.
"""

import ctypes
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_NAMES = {"compute": ("libcuda.so",), "utility": ("libnvidia-ml.so",)}
_CLONE_NEWNS = 0x20000


def _ask_nvml(root: Path) -> dict[str, int]:
    """Return the minor number of every card by UUID and by index."""
    nvml = ctypes.CDLL(str(root / _LIBRARIES / "libnvidia-ml.so.1"))
    if nvml.nvmlInit_v2():
        sys.exit("nvidia-container-cli: initialization error: nvml error: driver not loaded")
    count, found = ctypes.c_uint(), {}
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        handle, minor, text = ctypes.c_void_p(), ctypes.c_uint(), ctypes.create_string_buffer(96)
        nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        nvml.nvmlDeviceGetUUID(handle, text, 96)
        nvml.nvmlDeviceGetMinorNumber(handle, ctypes.byref(minor))
        found[text.value.decode()] = found[str(index)] = minor.value
    return found


def _select(wanted: str, known: dict[str, int]) -> list[int]:
    names = known if wanted == "all" else [name for name in wanted.split(",") if name not in ("", "void", "none")]
    for name in names:
        if name not in known:
            sys.exit(f"nvidia-container-cli: device error: {name}: unknown device")
    return sorted({known[name] for name in names})


def _allow(pid: str, nodes: list[str]) -> None:
    """Allow the nodes in the container's device cgroup, as the real one does."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "devices" in controllers.split(","):
            for node in nodes:
                number = Path(f"/dev/{node}").stat().st_rdev
                rule = f"c {os.major(number)}:{os.minor(number)} rw"
                Path(f"/sys/fs/cgroup/devices{path}/devices.allow").write_text(rule)


def _enter_mounts_of(pid: str) -> None:
    handle = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNS):
        sys.exit(f"nvidia-container-cli: the container's mounts cannot be entered: {os.strerror(ctypes.get_errno())}")


def _make_nodes(rootfs: Path, nodes: dict[str, int]) -> None:
    for name, number in nodes.items():
        os.mknod(rootfs / "dev" / name, stat.S_IFCHR | 0o666, number)
        (rootfs / "dev" / name).chmod(0o666)


def _mount_library(rootfs: Path, handle: int, name: str, version: str) -> None:
    """Bind one library from an open folder of the node, and make its links."""
    folder = rootfs / _LIBRARIES
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.{version}"
    target.touch()
    subprocess.run(["mount", "--bind", f"/proc/self/fd/{handle}/{target.name}", target], check=True, pass_fds=[handle])
    link = folder / f"{name}.1"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)


def main(arguments: list[str]) -> None:
    options = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
    root, rootfs = Path(options.get("root") or "/"), Path(arguments[-1])
    minors = _select(options.get("device", ""), _ask_nvml(root))
    nodes = [*(f"nvidia{minor}" for minor in minors), *(_CONTROL if minors else ())]
    numbers = {node: Path(f"/dev/{node}").stat().st_rdev for node in nodes}
    libraries = [name for capability, names in _NAMES.items() if capability in options for name in names]
    versions = {
        name: match[1]
        for name in libraries
        for path in (root / _LIBRARIES).glob(f"{name}.*")
        if (match := re.search(r"\.so\.([0-9]+\.[0-9.]+)$", path.name))
    }
    _allow(options["pid"], nodes)
    handle = os.open(root / _LIBRARIES, os.O_PATH | os.O_DIRECTORY)
    _enter_mounts_of(options["pid"])
    _make_nodes(rootfs, numbers)
    for name, version in versions.items():
        _mount_library(rootfs, handle, name, version)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Run on a node as a script: a /usr and a /dev of the node's own, and what the kernel says of NVIDIA's module.

It imports nothing of ours.  The rule: everything is a mount in the node's own namespace, so the machine keeps its /usr
and /dev, and all of it ends with the node.  Called again, it takes the former layer away first.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

_LAYER = Path("/run/nvidia-layer")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _take_away() -> None:
    """Unmount the former layer, the newest mount first; the node's own /usr and /dev come to light again."""
    mounts = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    ours = [left.split()[4] for left, _, right in mounts if right.split()[1].startswith("nvidia-")]
    for target in reversed(ours):
        subprocess.run(["umount", "--lazy", target], check=False)  # some went with their parent


def _lay_usr() -> None:
    """Cover /usr by a layer in memory: what is written there is the node's alone."""
    for part in ("above", "work"):
        (_LAYER / part).mkdir()
    options = f"lowerdir=/usr,upperdir={_LAYER}/above,workdir={_LAYER}/work"
    _mount("-t", "overlay", "-o", options, "nvidia-usr", "/usr")


def _lay_dev(nodes: dict[str, list[int]], state: str) -> None:
    """Cover /dev by a copy of it with NVIDIA's nodes; /dev/shm is the node's own and leads to the cards' state."""
    new = _LAYER / "dev"
    new.mkdir()
    _mount("-t", "tmpfs", "-o", "mode=755", "nvidia-dev", str(new))
    for entry in Path("/dev").iterdir():
        if entry.name in nodes:
            continue  # a machine with a card has its own
        copy, status = new / entry.name, entry.lstat()
        if entry.is_symlink():
            copy.symlink_to(entry.readlink())
        elif entry.is_dir():
            copy.mkdir()
            if entry.name != "shm":
                _mount("--rbind", str(entry), str(copy))
        elif stat.S_ISCHR(status.st_mode):
            os.mknod(copy, status.st_mode, status.st_rdev)
            copy.chmod(stat.S_IMODE(status.st_mode))
    for name, (major, minor) in nodes.items():
        os.mknod(new / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (new / name).chmod(0o666)
    (new / "shm").chmod(0o1777)
    # where simgpu looks when no variable names its file: so NVIDIA's programs on the node need none
    (new / "shm" / "simgpu.0").symlink_to(state)
    _mount("--rbind", str(new), "/dev")


def _say_in_proc(lines: dict[str, str]) -> None:
    """Add lines to /proc/modules and /proc/devices, where NVIDIA's programs look for the driver.

    A kernel without modules has no /proc/modules to cover; the file alone is then left for `toolkit`.
    """
    for name, added in lines.items():
        real, file = Path(f"/proc/{name}"), _LAYER / name
        text = real.read_text() if real.exists() else ""
        head, mark, tail = text.partition("Character devices:\n")
        file.write_text(f"{head}{mark}{added}{tail}" if mark else f"{added}{text}")
        if real.exists():
            _mount("--bind", str(file), str(real))


def _lay_driver(root: Path, version: str, libraries: dict[str, str], programs: dict[str, str]) -> None:
    folder = root / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in libraries.items():
        shutil.copyfile(source, folder / f"{name}.{version}")
        (folder / f"{name}.{version}").chmod(0o755)
        (folder / f"{name}.1").symlink_to(f"{name}.{version}")
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        (root / "usr/bin" / name).write_text(text)
        (root / "usr/bin" / name).chmod(0o755)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    _take_away()
    shutil.rmtree("/run/nvidia", ignore_errors=True)
    _LAYER.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "nvidia-layer", str(_LAYER))
    _lay_usr()
    _lay_dev(wanted["nodes"], wanted["state"])
    _say_in_proc(wanted["proc"])
    _lay_driver(Path(wanted["root"]), wanted["version"], wanted["libraries"], wanted["programs"])


if __name__ == "__main__":
    main()

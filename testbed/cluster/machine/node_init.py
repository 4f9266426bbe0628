"""The first process of a node: its own mounts, a host name, and an end that removes everything.

`sandbox` runs it as a script through `unshare`, so it imports nothing of ours.  The rule: when this process ends, the
kernel ends every process of the node, and with them its mounts and its network.  It ends when its owner does.
"""

import ctypes
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def main() -> None:
    # read before /proc is our own: our process id on the machine, by which others enter the namespaces
    number = str(Path("/proc/self").readlink())
    wanted = json.loads(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    socket.sethostname(wanted["name"])
    # shared inside (pods may ask for propagation), yet a group of its own: nothing reaches the machine's mounts
    _mount("--make-rshared", "/")
    for outside, inside in wanted["folders"]:
        Path(outside).mkdir(parents=True, exist_ok=True)
        Path(inside).mkdir(parents=True, exist_ok=True)
        _mount("--bind", outside, inside)
    for folder in wanted["in_memory"]:
        _mount("-t", "tmpfs", "guard", folder)
    _mount("-t", "proc", "proc", "/proc")
    # containers' orphans come to us; ignoring SIGCHLD has the kernel bury them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print(number, flush=True)
    if wanted["stays"]:
        signal.pause()
    sys.stdin.read()  # returns when the owner's end of the pipe closes, however the owner died


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(15, b"guard-node", 0, 0, 0)  # PR_SET_NAME: what `ps` shows
    main()

"""Records `nvsharectl top` over three programs on the software GPU: `python -m tests.runners.record_top`.

It writes the terminal session as asciicast v2 into docs/recordings/.
"""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fakes.wire.client import running_daemon

ROOT = Path(__file__).parents[2]
CAST = ROOT / "docs" / "recordings" / "nvsharectl-top.cast"
COLUMNS, ROWS, SECONDS = 130, 16, 8


def environment(folder: Path) -> dict[str, str]:
    simgpu = {"SIMGPU_FILE": str(folder / "gpus"), "SIMGPU_DEVICES": "1xT4-16GB"}
    return {**os.environ, "LD_LIBRARY_PATH": str(ROOT / "build/simgpu"), **simgpu}


def burn(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    hook = {"LD_PRELOAD": str(ROOT / "build/hook/libnvshare.so"), "NVSHARE_SOCKETS": str(folder)}
    command = [str(ROOT / "build/simgpu/burn"), "--seconds", str(SECONDS), "--quiet", *words]
    return subprocess.Popen(command, env={**environment(folder), **hook})


def record(folder: Path) -> list[tuple[float, str]]:
    os.environ.update(environment(folder))
    flags = ("--observer=spawn", "--metrics-port=0", "--side-by-side=never")
    with running_daemon(folder, *flags) as daemon:
        time.sleep(2)
        burns = [burn(folder, "--kernel-ms", "5"), burn(folder, "--kernel-ms", "20"), burn(folder, "--pause-ms", "50")]
        leader, follower = pty.openpty()
        command = [sys.executable, "-m", "schedulerd.nvsharectl", f"--control={daemon.control}", "top", "--rounds=6"]
        began = time.monotonic()
        top = subprocess.Popen(command, stdout=follower)
        os.close(follower)
        shown = []
        while True:
            try:
                data = os.read(leader, 65536)
            except OSError:
                break
            shown.append((time.monotonic() - began, data.decode()))
        top.wait()
        for one in burns:
            one.wait()
        daemon.end(signal.SIGTERM)
    return shown


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        shown = record(Path(name))
    CAST.parent.mkdir(parents=True, exist_ok=True)
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "nvsharectl top on the software GPU"}
    lines = [json.dumps(head), json.dumps([0.0, "o", "# nvsharectl top\r\n"])]
    CAST.write_text("\n".join([*lines, *(json.dumps([round(at, 3), "o", text]) for at, text in shown)]) + "\n")


if __name__ == "__main__":
    main()

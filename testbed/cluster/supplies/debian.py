"""Debian packages that a node or an image needs: installed where we may, otherwise named in one sentence."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from testbed.cluster import cache
from testbed.cluster.cache import Say
from testbed.cluster.errors import BrokenError, MissingError
from testbed.cluster.shell import run_command

_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def ensure(packages: Mapping[str, str], *, say: Say) -> None:
    """Install every command or file of the table that is missing."""
    with cache.locked(cache.root() / "apt-get.lock", say=say):  # two runs at once would meet on dpkg's lock
        absent = sorted({package for what, package in packages.items() if not _is_here(what)})
        if absent:
            _install(absent, say)


def _is_here(what: str) -> bool:
    if what.startswith("/"):
        return Path(what).exists()
    return shutil.which(what, path=os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM_FOLDERS])) is not None


def _install(packages: list[str], say: Say) -> None:
    remedy = f"apt-get install --no-install-recommends {' '.join(packages)}"
    if os.geteuid() != 0 or not _is_here("apt-get"):
        raise MissingError(f"this machine lacks {', '.join(packages)}", remedy)
    say(f"installing {', '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        run_command("apt-get", "update", "-q", environment=environment)
        run_command("apt-get", "install", "-qy", "--no-install-recommends", *packages, environment=environment)
    except BrokenError as error:
        raise MissingError(error.cause, remedy) from error


def need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise MissingError(f"{what} needs root", "run it as root; the control plane alone needs none")

"""Fetch a release of the driver library: from a mirror, once, into the cache.

Only `libcuda.so.1` and, where the package has it, `libnvidia-ml.so.1` are kept.
It needs no root: the package is unpacked, not installed.
"""

import hashlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from testbed.cluster import cache
from testbed.cluster.cache import Say
from testbed.cluster.errors import MissingError
from testbed.libcuda.pins import MIRRORS, Driver

_PATIENCE = 120.0
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")
_REMEDY = "python -m testbed.libcuda, where a mirror of {distribution} can be reached ({variable} names one)"


def cached(driver: Driver) -> Path | None:
    """Return the folder with the release's libcuda.so.1 if it was fetched before."""
    folder = cache.root() / _name(driver)
    return folder if folder.is_dir() else None


def fetched(driver: Driver, *, say: Say) -> Path:
    """Return the folder with the release's libcuda.so.1; fetch it where this machine has not done so yet."""
    return cache.filled(_name(driver), lambda folder: _fetch(driver, folder, say), say=say)


def remedy(driver: Driver) -> str:
    return _REMEDY.format(distribution=driver.distribution.title(), variable=MIRRORS[driver.distribution])


def _name(driver: Driver) -> str:
    return f"nvidia-driver-{driver.version}"


def _fetch(driver: Driver, folder: Path, say: Say) -> None:
    if not shutil.which("dpkg-deb"):
        raise MissingError("this machine lacks dpkg-deb, which unpacks the package", "apt-get install dpkg")
    package = folder / "package.deb"
    package.write_bytes(_download(driver, say))
    subprocess.run(["dpkg-deb", "-x", package, folder / "unpacked"], check=True)
    for library in _LIBRARIES:
        for found in (folder / "unpacked").rglob(f"{library}.{driver.version}"):
            found.rename(folder / found.name)
            (folder / f"{library}.1").symlink_to(found.name)
    shutil.rmtree(folder / "unpacked")
    package.unlink()
    if not (folder / "libcuda.so.1").exists():
        raise MissingError(f"{Path(driver.path).name} has no libcuda.so.{driver.version}", "name another in pins.py")


def _download(driver: Driver, say: Say) -> bytes:
    why = f"apt of this machine names no mirror of {driver.distribution.title()}"
    for mirror in _mirrors(driver.distribution):
        say(f"fetching NVIDIA's driver library {driver.version}")
        try:
            with urllib.request.urlopen(f"{mirror.rstrip('/')}/{driver.path}", timeout=_PATIENCE) as answer:
                content: bytes = answer.read()
        except (urllib.error.URLError, TimeoutError, ValueError) as error:
            why = f"the mirror did not give {Path(driver.path).name}: {error}"
            continue
        if hashlib.sha256(content).hexdigest() == driver.sha256:
            return content
        why = f"{Path(driver.path).name} has another SHA256 than pins.py says"
    raise MissingError(why, remedy(driver))


def _mirrors(distribution: str) -> Iterator[str]:
    """Yield the mirror of the variable, or those of this machine's apt."""
    given = os.environ.get(MIRRORS[distribution])
    if given:
        yield given
    elif shutil.which("apt-get"):
        asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
        listed = subprocess.run(asked, capture_output=True, text=True).stdout.split()
        yield from sorted({uri for uri in listed if uri.rstrip("/").endswith(f"/{distribution}")})

"""The frameworks' wheels: pinned by hash, unmodified, in a virtual environment of their own in the cache.

The rule: nothing is resolved here (`--no-deps`), so NVIDIA's large libraries, which stand-ins replace, are not fetched.
The lock files are for CPython 3.11 on x86_64; elsewhere everything that needs the wheels is skipped, loudly.
"""

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster import cache
from testbed.frameworks.errors import FrameworksError, NotCachedError

HERE = Path(__file__).parent
LOCKS = {"wheels": HERE / "requirements.txt", "headers": HERE / "headers.txt"}
CARD_LOCKS = {**LOCKS, "card": HERE / "card.txt"}
"""On a real card NVIDIA's own libraries lie beside the frameworks."""
NEEDED = ((3, 11), "x86_64")
ENOUGH_BYTES = 8_000_000_000


@dataclass(frozen=True, slots=True)
class Wheels:
    """Where the frameworks lie."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def site(self) -> Path:
        return self.folder / "venv" / "lib" / "python3.11" / "site-packages"

    @property
    def headers(self) -> Path:
        return self.folder / "headers" / "nvidia" / "cu13" / "include"

    def that_need_libraries(self) -> list[Path]:
        """List the shared objects whose undefined symbols NVIDIA's libraries would define."""
        patterns = ("torch/lib/*.so", "onnxruntime/capi/libonnxruntime_providers_cuda.so")
        return sorted(path for pattern in patterns for path in self.site.glob(pattern))


def why_not() -> str | None:
    """Return the reason why the wheels cannot be used on this machine, or None."""
    here = (sys.version_info[:2], platform.machine())
    if here != NEEDED:
        return f"the pinned wheels are for CPython 3.11 on x86_64, and this is {here[0]} on {here[1]}"
    return None


def cached() -> Wheels:
    """Return the wheels where they are in the cache; raise NotCachedError, with what to do, where they are not."""
    reason = why_not()
    if reason:
        raise NotCachedError(reason, "run `make frameworks` on such a machine")
    folder = cache.root() / _name()
    if not folder.is_dir():
        raise NotCachedError(
            "the frameworks' wheels are not in the cache", "run `make frameworks` (5 GB, some minutes)"
        )
    return Wheels(folder)


def install(say: cache.Say, locks: Mapping[str, Path] = LOCKS) -> Wheels:
    """Return the wheels; fetch them into the cache where they are not there."""
    reason = why_not()
    if reason:
        raise NotCachedError(reason, "run `make frameworks` on such a machine")
    return Wheels(cache.filled(_name(locks), lambda folder: _fill(folder, say, locks), say=say))


def _name(locks: Mapping[str, Path] = LOCKS) -> str:
    return f"frameworks-{cache.digest(*(path.read_bytes() for path in locks.values()))}"


def _fill(folder: Path, say: cache.Say, locks: Mapping[str, Path]) -> None:
    say(f"fetching the frameworks' wheels into {folder.parent} (5 GB, some minutes)")
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-cache-dir", "--require-hashes"]
    for name in (name for name in locks if name != "headers"):
        _run(*pip, "-r", str(locks[name]))
    _run(*pip, "--target", str(folder / "headers"), "-r", str(LOCKS["headers"]))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FrameworksError(
            f"`{' '.join(command[1:4])} …` failed: {done.stderr.strip()[-1500:]}",
            f"read the reason above; the cache needs {ENOUGH_BYTES / 1e9:.0f} GB and the machine a package index",
        )
    return done.stdout


def lock() -> None:
    """Write the lock files: every wheel of the `.in` files, with its hash, without what it depends on."""
    for name, target in LOCKS.items():
        source = target.with_suffix(".in")
        pinned = _resolve(source)
        target.write_text(f"# written from {source.name} by `python -m testbed.frameworks lock`: {name}\n" + pinned)


def _resolve(source: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _run(
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run", "--no-deps",
            "--ignore-installed", "--report", str(report), "-r", str(source),
        )  # fmt: skip
        found = json.loads(report.read_text())["install"]
    return "".join(sorted(map(_line, found), key=str.lower))


def _line(package: dict[str, dict[str, object]]) -> str:
    metadata, info = package["metadata"], package["download_info"]["archive_info"]
    assert isinstance(info, dict)
    return f"{metadata['name']}=={metadata['version']} --hash=sha256:{info['hashes']['sha256']}\n"

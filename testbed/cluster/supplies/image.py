"""The project's image, built from the real Dockerfile where no image registry can be reached.

The rule: an image is named by what it is made from, which is the Dockerfile and every file that .dockerignore lets
through.  So an unchanged tree builds nothing.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from testbed.cluster import cache, pins
from testbed.cluster.cache import Say
from testbed.cluster.errors import BrokenError, MissingError
from testbed.cluster.shell import run_command
from testbed.cluster.supplies import debian

REPOSITORY = Path(__file__).resolve().parents[3]
_LAYERS_KEPT = 400
_AUTHORITIES = "/run/machine-authorities.crt"
_KEPT = 6
"""How many archives of each target are kept: enough for the trees in work, not one for every commit."""


class Target(Enum):
    """A target of the Dockerfile, and the image's name; manifests may leave out the part before the last slash."""

    RUN = "nvshare.local/nvshare-guard:dev"
    """The four commands and the hook."""
    SIMGPU = "nvshare.local/nvshare-guard-simgpu:dev"
    """The same with the software GPU and NVIDIA's Python bindings, for pods that compute."""


def archive(target: Target, *, say: Say) -> Path:
    """Return the image as an archive for `Containerd.import_image`; build it where this tree has no image yet."""
    name = f"image-{target.name.lower()}-{cache.digest(*_inputs(), target.value.encode())}"
    folder = cache.filled(name, lambda folder: _build(target, folder, say), say=say)
    _forget_old(f"image-{target.name.lower()}-*", folder)
    return folder / "image.tar"


def _inputs() -> Iterator[bytes]:
    """Yield everything that can change the image."""
    yield repr((pins.DEBIAN_SUITE, _VARIANT, _EXCLUDED)).encode()
    for path in (REPOSITORY / "Dockerfile", *_context_files()):
        yield f"{path.relative_to(REPOSITORY)} {path.stat().st_mode & 0o111}".encode()
        yield path.read_bytes()


def _context_files() -> Iterator[Path]:
    """Yield the files that .dockerignore lets through (its lines with `!`), without what compilers leave."""
    for line in (REPOSITORY / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            root = REPOSITORY / line[1:]
            found = sorted(root.rglob("*")) if root.is_dir() else [root]
            yield from (path for path in found if path.is_file() and not _is_compiled(path))


def _is_compiled(path: Path) -> bool:
    return path.suffix in {".pyc", ".o"} or "__pycache__" in path.parts


def _forget_old(pattern: str, current: Path) -> None:
    current.touch()
    made = sorted(cache.root().glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in [path for path in made if path.is_dir()][_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _build(target: Target, folder: Path, say: Say) -> None:
    debian.need_root("building the image")
    debian.ensure(pins.IMAGE_PACKAGES, say=say)
    buildah = Buildah()
    with cache.locked(cache.root() / "buildah.lock", say=say):
        base = buildah.ensure_base(say)
        say(f"building {target.value} from the Dockerfile")
        buildah.build(target, base, say)
        buildah.write_archive(target, folder / "image.tar")
        buildah.forget_old_layers()
    say(f"  {(folder / 'image.tar').stat().st_size / 1e6:.0f} MB")


class Buildah:
    """buildah with a storage of its own, so that no other images are touched."""

    def __init__(self) -> None:
        folder = cache.root() / "buildah"
        self._command = ["buildah", "--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def call(self, *arguments: str) -> str:
        return run_command(*self._command, *arguments)

    def ensure_base(self, say: Say) -> str:
        """Return the Dockerfile's BASE; make it from Debian's packages, like debian:…-slim, where it is missing."""
        system = base_system(say)
        name = f"{pins.BASE_IMAGE}:{system.parent.name}"
        if name in self.call("images", "--format", "{{.Name}}:{{.Tag}}").split():
            return name
        container = self.call("from", "scratch").strip()
        try:
            self.call("add", container, str(system), "/")
            self.call("commit", container, name)
        finally:
            self.call("rm", container)
        return name

    def build(self, target: Target, base: str, say: Say) -> None:
        """Build with `chroot` isolation and the machine's network, so that it works in containers and VMs too."""
        options = ["--isolation", "chroot", "--network", "host", "--layers", "--build-arg", f"BASE={base}"]
        options += ["--target", target.name.lower(), "--tag", target.value, "--file", "Dockerfile"]
        command = [*self._command, "build", *options, *_package_index(), "."]
        lines: list[str] = []
        # stderr has the compilers' and installers' words; stdout the steps
        with subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as builder:
            assert builder.stdout is not None
            for line in builder.stdout:
                lines.append(line.rstrip())
                if line.startswith("STEP") or "]: STEP" in line or line.startswith("["):
                    say(f"  {line.strip()[:110]}")
        if builder.returncode:
            raise BrokenError(
                "the image could not be built:\n" + "\n".join(lines[-15:]), "see the Dockerfile's step above"
            )

    def forget_old_layers(self) -> None:
        """Remove, now and then, every layer that no image needs; the next build is then a full one."""
        if len(self.call("images", "--all", "--quiet").split()) > _LAYERS_KEPT:
            self.call("rmi", "--prune", "--force")

    def write_archive(self, target: Target, path: Path) -> None:
        self.call("push", target.value, f"docker-archive:{path}:{target.value}")


def _package_index() -> Iterator[str]:
    """Yield what pip needs on this machine's network: its CA bundle, and the index that the machine names."""
    authorities = Path(os.environ.get("PIP_CERT") or "/etc/ssl/certs/ca-certificates.crt")
    if authorities.exists():
        yield from ("--volume", f"{authorities}:{_AUTHORITIES}:ro", "--build-arg", f"PIP_CERT={_AUTHORITIES}")
    if index := os.environ.get("PIP_INDEX_URL"):
        yield from ("--build-arg", f"PIP_INDEX_URL={index}")


# What Debian cannot do without, and apt.  /usr is merged from the start: the package that would merge it later needs
# the whole of Perl, a third of the system.
_VARIANT = ("--variant=apt", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--include=usr-is-merged")
_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/groff/*")


def base_system(say: Say) -> Path:
    """Return a minimal Debian as a tar, without the files that a `-slim` image leaves out."""
    made_from = repr((pins.DEBIAN_SUITE, _VARIANT, _EXCLUDED)).encode()
    return cache.filled(f"base-{cache.digest(made_from)}", lambda folder: _bootstrap(folder, say), say=say) / "base.tar"


def _bootstrap(folder: Path, say: Say) -> None:
    say(f"making a minimal Debian {pins.DEBIAN_SUITE} with mmdebstrap, once")
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    try:
        run_command("mmdebstrap", *_VARIANT, *options, pins.DEBIAN_SUITE, str(folder / "base.tar"))
    except BrokenError as error:
        raise MissingError(error.cause, "see that Debian's mirror can be reached: apt-get update") from error

"""Real Kubernetes, etcd and containerd, compiled from the Go module proxy.

The rule: a build is named by everything that it is made from (go.mod, go.sum, packages, stamps, machine).  So a changed
pin is a new build, and an old build is never used for it.
"""

import os
import platform
import subprocess
import time
from pathlib import Path

from testbed.cluster import cache, pins
from testbed.cluster.cache import Say
from testbed.cluster.errors import MissingError
from testbed.cluster.supplies.toolchain import find_go

_GO = Path(__file__).with_name("go")
_PROGRESS_SECONDS = 15.0
_COMPILER = {
    "GOFLAGS": "-buildvcs=false",
    "GOTOOLCHAIN": "local",  # a compiler that is too old must say so, not fetch another
    "GOWORK": "off",  # a workspace above us is not ours
}


def control_plane_programs(*, say: Say) -> Path:
    """Return a folder with etcd, kube-apiserver and kubectl.

    It is KUBEBUILDER_ASSETS where that is set, otherwise our build.
    """
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if not given:
        return programs(pins.CONTROL_PLANE, say=say)
    absent = [name for name in pins.KUBEBUILDER_PROGRAMS if not (Path(given) / name).exists()]
    if absent:
        raise MissingError(
            f"KUBEBUILDER_ASSETS={given} has no {', '.join(absent)}",
            "point it at a folder of setup-envtest, or unset it to have them built",
        )
    return Path(given)


def programs(module: pins.Module, *, say: Say) -> Path:
    """Return the folder with the module's programs; build them where this machine has not built them yet."""
    return cache.filled(build_name(module), lambda folder: _build(module, folder, say), say=say)


def build_name(module: pins.Module) -> str:
    # The names in the go.mod files are of an older place, and stay: another name is another build of ten minutes.
    folder = _GO / module.folder
    made_from = ((folder / "go.mod").read_bytes(), (folder / "go.sum").read_bytes(), repr(module).encode())
    return f"{module.folder}-{module.version}-{cache.digest(*made_from, platform.machine().encode())}"


def _build(module: pins.Module, folder: Path, say: Say) -> None:
    names = ", ".join(program.name for program in module.programs)
    say(f"building {module.folder} {module.version} from the Go module proxy, once: {names}")
    command = ["nice", str(find_go()), "build", "-v", "-trimpath", "-mod=readonly", "-o", f"{folder}/"]
    command += ["-ldflags", " ".join(["-s -w", *(f"-X {stamp}" for stamp in module.stamps)])]
    command += [program.package for program in module.programs]
    environment = {**os.environ, **_COMPILER, "CGO_ENABLED": "1" if module.needs_c else "0"}
    _watch(command, cwd=_GO / module.folder, environment=environment, say=say)
    for program in module.programs:
        (folder / Path(_command_name(program.package))).rename(folder / program.name)


def _command_name(package: str) -> str:
    """Return the program's name as `go build` makes it: the last part of its path that is not a major version."""
    *before, last = package.split("/")
    return before[-1] if last.startswith("v") and last[1:].isdigit() else last


def _watch(command: list[str], *, cwd: Path, environment: dict[str, str], say: Say) -> None:
    """Run the compiler and count the packages it reports; its last lines are the error when it fails."""
    began = said = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True) as compiler:
        assert compiler.stderr is not None
        try:
            for line in compiler.stderr:
                lines.append(line.rstrip())
                if time.monotonic() - said > _PROGRESS_SECONDS:
                    said = time.monotonic()
                    say(f"  {said - began:4.0f} s: {len(lines)} packages compiled, now {lines[-1]}")
        except BaseException:
            compiler.terminate()  # Ctrl-C, or a test's time is up: it would go on for minutes
            raise
    if compiler.returncode:
        raise MissingError(
            f"{cwd.name} could not be built: " + " | ".join(lines[-5:]),
            "see that the Go module proxy can be reached (go env GOPROXY) and the disk has 10 GB free",
        )
    say(f"  built in {time.monotonic() - began:.0f} s")

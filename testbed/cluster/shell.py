"""Short commands of the machine (`ip`, `mount`, `apt-get`, …): each one works, or its error says why not."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from testbed.cluster.errors import BrokenError


def run_command(
    *command: str, stdin: str | None = None, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run the command and return its output; raise BrokenError where it fails."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=environment, cwd=folder, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-1500:]
        raise BrokenError(f"`{' '.join(command)}` ended with {done.returncode}: {said}", "read the output above")
    return done.stdout


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
